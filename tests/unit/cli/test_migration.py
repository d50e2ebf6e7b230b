"""The phases of a run, and the meaning of a comparison."""

from types import SimpleNamespace
from typing import cast

import pytest

from airflow_provider_dm.cli import migration
from airflow_provider_dm.cli.app_phase import RunContext
from airflow_provider_dm.cli.errors import RowsDiffer, SourcesNotQuiet
from airflow_provider_dm.cli.migration import Summary, differing_tables, moved_since, phases
from airflow_provider_dm.engine.config.task import TaskConfig, TaskMode
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.launch.job import AppName

FULL, SYNC, VERIFY = "full_migration", "incremental_sync", "verify"


@pytest.mark.parametrize(
    ("mode", "until", "unneeded", "expected"),
    [
        (TaskMode.ALL, "caught-up", (), (FULL, SYNC, VERIFY)),
        (TaskMode.ALL, "caught-up", (FULL,), (SYNC, VERIFY)),
        (TaskMode.ALL, "caught-up", (VERIFY,), (FULL, SYNC)),
        (TaskMode.ALL, "forever", (), (FULL, SYNC)),
        (TaskMode.ALL, "mysql-bin.000002:4", (), (FULL, SYNC)),
        (TaskMode.FULL, "caught-up", (), (FULL, VERIFY)),
        (TaskMode.FULL, "caught-up", (FULL,), (VERIFY,)),
        (TaskMode.INCREMENTAL, "caught-up", (), (SYNC, VERIFY)),
        (TaskMode.INCREMENTAL, "forever", (FULL,), (SYNC,)),
    ],
)
def test_a_run_has_the_remaining_phases(
    mode: TaskMode, until: str, unneeded: tuple[AppName, ...], expected: tuple[str, ...]
) -> None:
    assert phases(mode, until=until, unneeded=unneeded) == expected


def at(position: int, *, file: str = "mysql-bin.000002", suffix: int = 1) -> Location:
    return Location(file, position, suffix=suffix)


ROWS = [{"key": {"id": "7"}, "in_sources": 1, "in_target": 0}]
TABLES = [
    {"target": "a.t", "equal": False, "source_rows": 3, "target_rows": 2, "differing": ROWS},
    {"target": "a.u", "equal": True, "source_rows": 1, "target_rows": 1},
]
DIFFERING = {"verified": False, "rows": 3, "tables": TABLES}


def verified(
    result: dict[str, object], now: Location, monkeypatch: pytest.MonkeyPatch, summary: Summary | None = None
) -> Summary:
    """Return the summary of a comparison of a full task, whose source was at position 4 when the copy began."""
    monkeypatch.setattr(migration, "_compare", lambda *_: result)
    monkeypatch.setattr(migration, "_ends_of", lambda _: {"one": now})
    monkeypatch.setattr(migration, "_subtasks", lambda *_: [SimpleNamespace(source="one", start=at(4))])
    task = SimpleNamespace(task_mode=TaskMode.FULL)
    supervisor = SimpleNamespace(inputs=SimpleNamespace(task=task, target=None))
    context = cast(RunContext, SimpleNamespace(supervisor=supervisor, output=SimpleNamespace(print_line=print)))
    summary = summary or Summary()
    try:
        migration._verify(context, summary, "caught-up")
    finally:
        assert summary.verified is bool(result["verified"])
    return summary


def test_equal_rows_are_verified_wherever_the_source_went(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verified({"verified": True}, at(900), monkeypatch).verified


def test_a_difference_does_not_count_if_a_source_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = moved_since({"one": at(4), "two": at(50)}, {"one": at(4), "two": at(90)})
    assert moved == {"two": "from mysql-bin.000002:50 to mysql-bin.000002:90"}
    with pytest.raises(SourcesNotQuiet):
        verified(DIFFERING, at(900), monkeypatch)


def test_with_idle_sources_a_difference_is_an_error_with_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    summary = Summary()
    with pytest.raises(RowsDiffer, match=r"a\.t \(3 rows in the sources, 2 in the target\)"):
        verified(DIFFERING, at(4), monkeypatch, summary)
    task = cast(TaskConfig, SimpleNamespace(name="shop"))
    assert summary.to_json(task)["differing"] == {"a.t": ROWS}


def test_a_failover_of_the_relay_does_not_make_a_source_look_idle() -> None:
    assert moved_since({"one": at(4, suffix=2)}, {"one": at(90)})


def test_many_differing_tables_are_counted() -> None:
    tables = [{"target": f"t{number}", "equal": False, "source_rows": 1, "target_rows": 0} for number in range(8)]

    named = differing_tables({"verified": False, "tables": tables})

    assert (len(named), named[-1]) == (6, "and 3 more")


def test_a_run_reports_the_rows_that_it_leaves_held_back() -> None:
    group = {"target": "`shop`.`o`", "waits": "for mysql-02"}
    waiting = Summary(unresolved_groups={"mysql-01": [group]}).waiting
    assert waiting == "waiting for lock: mysql-01 holds back rows of `shop`.`o`, and waits for mysql-02"
    assert Summary().waiting == ""


def test_rows_that_are_held_back_by_now_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A DDL of merged tables was executed during the comparison, so a difference proves nothing."""
    done: list[str] = []

    def compare(*_: object) -> dict[str, object]:
        done.append("compare")
        return DIFFERING

    def sync(_context: object, summary: Summary, _until: str) -> None:
        done.append("sync")
        summary.unresolved_groups = {"one": [{"target": "`a`.`t`", "waits": "for two"}]}

    for name, instead in (("_compare", compare), ("_sync", sync), ("_ends_of", lambda _: {"one": at(90)})):
        monkeypatch.setattr(migration, name, instead)
    task = SimpleNamespace(task_mode=TaskMode.INCREMENTAL)
    supervisor = SimpleNamespace(inputs=SimpleNamespace(task=task), upstreams=())
    context = cast(RunContext, SimpleNamespace(supervisor=supervisor, output=SimpleNamespace(print_line=done.append)))
    summary = Summary(locations={"one": at(4)})
    migration._verify(context, summary, "caught-up")
    assert (done[0], done[2]) == ("compare", "sync")
    assert done[-1] == "the comparison is skipped, because rows are held back"
    assert summary.verified is None
