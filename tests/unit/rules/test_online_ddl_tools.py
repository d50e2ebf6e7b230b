"""The recorded statements of the tools, on both flavours: each run yields the requested ALTER, or a stop."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.online_ddl.memory import OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.outcomes import ApplyDdl, GhostOutcome, OrdinaryDdl, SkipDdl, StopAtDdl
from airflow_provider_dm.engine.schema.model import Table
from tests.unit.rules.online_ddl_machine import follow

RECORDS = sorted((Path(__file__).parent / "online_ddl").glob("*.txt"))


@dataclass(frozen=True)
class Recorded:
    """One run of a tool."""

    name: str
    table: Table
    alter: str
    statements: tuple[str, ...]


def recorded(path: Path) -> Iterator[Recorded]:
    _, *runs = path.read_text(encoding="utf-8").split("\n== ")
    for run in runs:
        head, *statements = run.rstrip("\n").split("\n--\n")
        title, _, table = head.partition("\ntable: ")
        name, asked, _ = title.split(" | ")
        yield Recorded(name, Table.from_json(json.loads(table)), asked.partition(": ")[2], tuple(statements))


def outcomes(path: Path) -> dict[str, tuple[Recorded, list[GhostOutcome]]]:
    """Follow all runs of a record with one memory, as a sync does."""
    memory, found = OnlineDdls(), {}
    for run in recorded(path):
        memory, results = follow(memory, run.statements, tables=[run.table])
        found[run.name] = run, results
    return found


STOPS = {
    "RENAME COLUMN": "RENAME COLUMN cc: the log does not show whether its values were copied",
    "a name used again": "the column d is new, and the tool has copied the values of an older column into it",
}
NOT_DONE = ("a dry run", "killed", "refused by the server")


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_run_yields_the_requested_alter(path: Path) -> None:
    for name, (run, results) in outcomes(path).items():
        decisive = [one for one in results if isinstance(one, ApplyDdl | StopAtDdl)]
        if name in NOT_DONE:
            assert not decisive, (path.stem, name)
        elif name in STOPS:
            assert [STOPS[name] in one.why for one in decisive if isinstance(one, StopAtDdl)] == [True], (
                path.stem,
                name,
            )
        else:
            direct = parse(f"ALTER TABLE {run.table.name.quoted()} {run.alter}", 0, "shop")
            (applied,) = decisive
            assert isinstance(applied, ApplyDdl), (path.stem, name, applied)
            assert applied.real == run.table.name
            assert [one.statement for one in applied.changes] == [direct], (path.stem, name)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_nothing_else_of_a_run_affects_the_task(path: Path) -> None:
    for name, (run, results) in outcomes(path).items():
        left = [
            sql
            for sql, one in zip(run.statements, results, strict=True)
            if isinstance(one, OrdinaryDdl) and "TRIGGER" not in sql and not sql.startswith("ANALYZE")
        ]
        if name == "a child":  # it renames its own foreign key to itself, once it is the real table
            assert [sql[:50] for sql in left] == ["ALTER TABLE `shop`.`child` DROP FOREIGN KEY `_to_s"]
        elif name == "a parent":
            assert [sql[:50] for sql in left] == ["ALTER TABLE `shop`.`child` DROP FOREIGN KEY `_to_p"]
        else:
            assert not left, (path.stem, name)
        assert any(isinstance(one, SkipDdl) and "is recorded" in one.why for one in results)
        assert all(isinstance(one, SkipDdl | ApplyDdl | OrdinaryDdl | StopAtDdl) for one in results)


def test_both_flavours_of_both_tools_are_recorded() -> None:
    assert [path.stem for path in RECORDS] == ["gh_ost_mariadb", "gh_ost_mysql", "pt_osc_mariadb", "pt_osc_mysql"]
    assert len(outcomes(RECORDS[-1])) == 16
    assert {run.table.name for path in RECORDS for run in recorded(path)} >= {TableName("shop", "types")}
