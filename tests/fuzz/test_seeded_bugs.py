"""The harness finds an engine that is wrong: each seeded bug, within a few cases of the normal run."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import campaign
from tests.fuzz.bugs import BUGS
from tests.fuzz.campaign import SEED
from tests.fuzz.cases import check, make_case, warm_up
from tests.fuzz.limits import bound_memory

pytestmark = pytest.mark.computes

OF_A_PROCESS = {"endless-loop-in-c": "SIGVTALRM", "segmentation-fault": "SIGSEGV"}
"""Bugs that end their process, and how."""
CASES = 3000


@pytest.fixture(scope="module")
def warm() -> None:
    warm_up()


@pytest.fixture
def bounded_memory(warm: None) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS)
    bound_memory()
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("bounded_memory")
@pytest.mark.parametrize("name", sorted(BUGS.keys() - OF_A_PROCESS.keys()))
def test_a_seeded_bug_is_found(name: str, tmp_path: Path) -> None:
    for number in range(CASES):
        case = make_case(SEED, number)
        if check(case, tmp_path, BUGS[name]).problem is not None:
            assert check(case, tmp_path).problem is None  # it is the bug that was found
            return
    pytest.fail(f"{CASES} cases did not find it")


@pytest.mark.parametrize("name", sorted(OF_A_PROCESS))
def test_a_bug_that_ends_its_process_is_found_and_the_campaign_continues(name: str, tmp_path: Path) -> None:
    report = campaign.run(40, save=tmp_path, bug=name)
    assert OF_A_PROCESS[name] in "".join(failure.problem for failure in report.failures)
    assert report.counts["cases"] > 40 / campaign.WORKERS  # more than those of the worker that did not die
    seed, number = map(int, report.failures[0].case.split(":"))
    assert check(make_case(seed, number), tmp_path).problem is None


def test_a_failure_is_reproduced_by_its_case_number(tmp_path: Path) -> None:
    report = campaign.run(200, save=tmp_path, bug="last-row-dropped")
    assert report.failures
    for failure in report.failures[:3]:
        seed, number = map(int, failure.case.split(":"))
        case = make_case(seed, number)
        assert str(case) == failure.described
        assert (Path(failure.saved) / "mysql-bin.000001").read_bytes() == case.files[0]
        assert check(case, tmp_path, BUGS["last-row-dropped"]).problem == failure.problem
