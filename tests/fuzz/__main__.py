"""The commands of the package's docstring."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz import campaign

if TYPE_CHECKING:
    from tests.fuzz.cases import Case, Verdict


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Damaged binlogs against the engine.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--cases", type=int, metavar="N", help="run the cases SEED:0 to SEED:N-1")
    what.add_argument("--case", metavar="SEED:NUMBER", help="run one case again and say everything about it")
    what.add_argument("--seconds", type=int, metavar="N", help="search guided by coverage (atheris), for so long")
    what.add_argument("--input", type=Path, metavar="FILE", help="run what --seconds has found again")
    parser.add_argument("--seed", type=int, default=campaign.SEED, help="of --cases")
    parser.add_argument("--workers", type=int, default=campaign.WORKERS, help="processes")
    parser.add_argument("--checked", action="store_true", help="of --cases: kernels check every index")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="of --seconds: kept from run to run")
    parser.add_argument("--save", type=Path, metavar="DIR", help="where logs that break the promise are kept")
    chosen = parser.parse_args()
    if chosen.case:
        return _again(chosen.case)
    if chosen.seconds:
        from tests.fuzz import guided

        return guided.run(chosen.seconds, chosen.corpus, chosen.save, chosen.workers)
    if chosen.input:
        return _input(chosen.input)
    report = campaign.run(
        chosen.cases, seed=chosen.seed, workers=chosen.workers, save=chosen.save, checked=chosen.checked
    )
    print(f"seed {chosen.seed}\n{report}")
    return 1 if report.failures else 0


def _again(name: str) -> int:
    from tests.fuzz.cases import check, make_case, warm_up

    warm_up()
    seed, number = map(int, name.split(":"))
    case = make_case(seed, number)
    with tempfile.TemporaryDirectory() as folder:
        return _said(case, check(case, Path(folder)))


def _input(path: Path) -> int:
    from tests.fuzz.cases import warm_up
    from tests.fuzz.guided import check_input

    warm_up()

    with tempfile.TemporaryDirectory() as folder:
        return _said(*check_input(path.read_bytes(), Path(folder)))


def _said(case: Case, verdict: Verdict) -> int:
    print(f"{case}\n{verdict.kind}\n{verdict.problem or 'the promise is kept'}")
    return 1 if verdict.problem else 0


if __name__ == "__main__":
    sys.exit(main())
