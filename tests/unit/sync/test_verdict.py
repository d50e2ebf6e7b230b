"""The row that collides with a waiting row, by the rows that their sources have now."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, cast

import pytest

from airflow_provider_dm.engine.downstream.contested_row import ContestedRow
from airflow_provider_dm.engine.downstream.table_schema import Feeder
from airflow_provider_dm.engine.merge.collision import Collides, CollisionVerdict, verdict_on
from airflow_provider_dm.engine.merge.servers import ContestServers, KeyHolder, KeyValues
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import Value
from airflow_provider_dm.engine.schema.model import Table
from tests.unit.sync.target_tables import TARGETS

TARGET: Final = TARGETS[1]
MINE, OTHER = (replace(TARGET, name=TableName(f"shop_{source}", "unique_1")) for source in range(2))
FEEDERS: Final = tuple(Feeder(f"source_{n}", one.name, TARGET.name) for n, one in enumerate((MINE, OTHER)))
ROW: Final = ContestedRow(1, "source_0", MINE.name, TARGET.name, b"1", (b"1", b"5", b"v"))

Pairs = Collection[tuple[bytes, bytes]]
"""k and u of rows."""


@dataclass(frozen=True)
class Answers:
    """What the target and the two sources have."""

    target: Pairs
    mine: Pairs
    other: Pairs

    def holders(self, row: ContestedRow, mapping: TableMapping) -> list[KeyHolder]:
        found = []
        for at, key in enumerate(TARGET.unique_keys):
            values: list[dict[str, Value]] = [{"k": k, "u": u} for k, u in self.target if (k, u)[at] == row.row[at]]
            found += [KeyHolder(key, {"k": one["k"]}, {name: one[name] for name in key.columns}) for one in values]
        return found

    def has(self, source: str, table: TableName, values: KeyValues, typed: Table) -> bool:
        there = self.mine if source == "source_0" else self.other
        return any(all({"k": k, "u": u}[name] == value for name, value in values.items()) for k, u in there)


ONE, TWO, BOTH = (b"1", b"9"), (b"2", b"5"), (b"1", b"5")
CASES = {
    "both of them": (Answers([ONE, TWO], [BOTH], [ONE, TWO]), b"1"),
    "one, the other one is gone": (Answers([ONE, TWO], [BOTH], [TWO]), b"2"),
    "one, and what waits has continued": (Answers([ONE, TWO], [(b"1", b"6")], [ONE, TWO]), b"1"),
    "one row, by one of its two values": (Answers([BOTH], [BOTH], [ONE]), b"1"),
}


@pytest.mark.parametrize(("answers", "collides"), CASES.values(), ids=CASES)
def test_the_verdict_names_the_colliding_row(answers: Answers, collides: bytes) -> None:
    found = verdict_on(ROW, TableMapping(MINE, TARGET), FEEDERS, cast("ContestServers", answers))
    assert isinstance(found, Collides)
    assert found.holder.identity["k"] == collides


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        (Answers([], [BOTH], []), CollisionVerdict.WAITS),
        (Answers([TWO], [(b"1", b"6")], [TWO]), CollisionVerdict.PAST),
        (Answers([ONE, TWO], [BOTH], []), CollisionVerdict.FOREIGN),
    ],
)
def test_verdicts_without_a_collision(answers: Answers, verdict: CollisionVerdict) -> None:
    assert verdict_on(ROW, TableMapping(MINE, TARGET), FEEDERS, cast("ContestServers", answers)) is verdict
