"""Changes that kernels fold go where they would have gone as ordinary changes."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, pairwise, repeat
from pathlib import Path
from typing import Any

import pytest
from pymysql.constants import FIELD_TYPE

from airflow_provider_dm.engine.binlog.changes import Batch
from airflow_provider_dm.engine.binlog.errors import MalformedRows
from airflow_provider_dm.engine.binlog.planned import ByteRange, Epoch, EpochLimits
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.sync.errors import BrokenChain
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.write import encoded as encoding
from airflow_provider_dm.engine.sync.write import tasks
from airflow_provider_dm.engine.sync.write.causality import Waves, make_waves
from airflow_provider_dm.engine.sync.write.chains import Chains, unchanged_tables
from airflow_provider_dm.engine.sync.write.compactor import Compactor, FoldedChanges
from airflow_provider_dm.engine.sync.write.encoded import EncodedFold
from tests.unit.binlog.building import ORDERS, Log, order
from tests.unit.sync.test_change import NOWHERE, plan_of

NOT_NULL = Column("id", 0, "int", "int", nullable=False)
ONE = replace(ORDERS, columns=(NOT_NULL, ORDERS.columns[1]))
TWO = replace(
    ONE,
    name=TableName("shop", "two"),
    columns=(NOT_NULL, Column("note", 1, "varbinary", "varbinary(80)", nullable=True, octet_length=80)),
    unique_keys=(*ONE.unique_keys, Index("n", ("note",), prefixes=(None,))),
)
THREE = replace(ONE, name=TableName("shop", "three"))
TABLES = (ONE, TWO, THREE)
ALWAYS = repeat(True)
UNIQUE = [b"u%d" % number for number in range(60)]
Held = tuple[int, bytes | None]
Logged = tuple[int, int | None, int | None]
"""Table, key before, key after."""


def log_of(changes: Sequence[Sequence[Logged]], folder: Path) -> list[ByteRange]:
    """Write transactions to a log; return a range for each."""

    def held(key: int | None) -> Held | None:
        return None if key is None else (key, None if key % 3 else b"n%d" % key)

    transactions = [[(table, held(before), held(after)) for table, before, after in some] for some in changes]
    return ranges_of(transactions, TABLES, folder, range_bytes=1)


def ranges_of(
    transactions: Iterable[Sequence[tuple[int, Held | None, Held | None]]],
    tables: Sequence[Table],
    folder: Path,
    *,
    range_bytes: int,
) -> list[ByteRange]:
    """Write transactions of changes, as (table, before, after), to a log; return its ranges."""
    log = Log()
    for transaction in transactions:
        log.begin()
        for table, before, after in transaction:
            log.change(before and order(*before), after and order(*after), tables[table].name)
        log.xid()
    planned = plan_epoch([log.file(folder)], Location(log.name, 4), EpochLimits(range_bytes=range_bytes))
    return list(planned.ranges) if isinstance(planned, Epoch) else []


Work = dict[tuple[int, int, int, str], list[Row]]


def sorted_out(waves: Waves) -> Work:
    found: Work = {}
    for number, wave in enumerate((waves.first, waves.second)):
        for bucket, tables in wave.items():
            for table, work in tables.items():
                rows = {"delete": work.delete, "transient": work.transient, "insert": list(work.inserted())}
                rows["change"] = list(work.changed())
                assert work.rows() == sum(map(len, rows.values()))
                found |= {(number, bucket, table, verb): sorted(some, key=repr) for verb, some in rows.items() if some}
    return found


def outcome(plan: SyncPlan, folded: FoldedChanges | None) -> tuple[int, Work] | None:
    return None if folded is None else (folded.changes, sorted_out(make_waves(plan, folded)))


def fold_or_error(
    plan: SyncPlan, ranges: Sequence[ByteRange], tables: set[int], by_kernels: Iterable[bool]
) -> FoldedChanges | None:
    """Return None for a broken chain. Of two, either may be met first."""
    try:
        return fold_of(plan, ranges, tables, by_kernels)
    except BrokenChain:
        return None


def fold_of(
    plan: SyncPlan, ranges: Iterable[ByteRange], tables: set[int], by_kernels: Iterable[bool] = ALWAYS
) -> FoldedChanges:
    compactor, uses = Compactor(plan), iter(by_kernels)
    encoded = EncodedFold(compactor, plan, tables)

    def take(batch: Batch) -> Batch:
        return encoded.take(replace(batch, compiled=next(uses)), "file")

    for one in ranges:
        compactor.add_all(tasks._changes(plan, NOWHERE, one, take))
    return encoded.folded()


def test_a_key_that_is_inserted_twice_is_an_error(tmp_path: Path) -> None:
    ranges = log_of([[(0, None, 7)], [(0, None, 8), (0, None, 7)]], tmp_path)

    with pytest.raises(BrokenChain):
        fold_of(plan_of(*TABLES), ranges, unchanged_tables(plan_of(*TABLES)))


def history(chance: random.Random, *, lies: float, wild: float) -> Iterator[list[tuple[int, Held | None, Held | None]]]:
    """Yield transactions of changes as (table, before, after). `lies`: of rows that are not so. `wild`: keys that
    change, and rows that come and go."""
    rows: dict[tuple[int, int], Held] = {(table, key): (key, b"old") for table in (0, 2) for key in range(20)}
    rows |= {(1, key): (key, b"u%d" % key) for key in range(8)}
    born: set[tuple[int, int]] = set()
    for number in range(chance.randrange(30)):
        transaction: list[tuple[int, Held | None, Held | None]] = []
        for _ in range(chance.randrange(1, 4)):
            table, key = chance.choice([0, 0, 0, 1, 2]), chance.randrange(25)
            before, after = rows.pop((table, key), None), (key, b"%d" % chance.randrange(4))
            if table == 1:  # it has a further unique key
                held = {value for (other, _), (_, value) in rows.items() if other == table}
                after = (key, chance.choice([value for value in UNIQUE if value not in held]))
            if before is not None and chance.random() < lies:
                before = (key, b"lie %d" % number)
            is_wild = chance.random() < wild
            if before is not None and chance.random() < 0.2 and (is_wild or (table, key) not in born):
                transaction.append((table, before, None))
                continue
            if is_wild and (table, key + 30) not in rows:
                after = (key + 30, after[1])
            if before is None:
                born.add((table, after[0]))
            rows[table, after[0]] = after
            transaction.append((table, before, after))
        yield transaction


def log_of_history(chance: random.Random, folder: Path, *, lies: float, wild: float) -> list[ByteRange]:
    transactions = list(history(chance, lies=lies, wild=wild))
    return ranges_of(transactions, TABLES, folder, range_bytes=chance.choice([1, 1 << 20]))


JOINED = ((1, encoding.PART_BYTES), (256, encoding.PART_BYTES), (256, 500))
"""The fewest of the changes of a piece that are joined on their way to the compactor, and the bytes of a part. A range
is a transaction or all of the log, so the changes of several or of each are joined."""


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize(("lies", "wild"), [(0, 0), (0.01, 0), (0, 0.05), (0.01, 0.05)])
def test_encoded_changes_have_the_result_of_the_compactor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lies: float, wild: float, safe: bool
) -> None:
    plan, errors = replace(plan_of(*TABLES), safe=safe), 0
    encoded, unique, disputed = (dict.fromkeys(JOINED, 0) for _ in range(3))
    for seed in range(60):
        ranges = log_of_history(random.Random(seed), tmp_path, lies=lies, wild=wild)
        python_first = seed % 5 == 0
        ordinary = outcome(plan, fold_or_error(plan, ranges, set(), repeat(False)))
        errors += ordinary is None
        for way in JOINED:
            fewest, part_bytes = way
            monkeypatch.setattr(encoding, "PART_BYTES", part_bytes)
            monkeypatch.setattr(Chains, "of", partial(joined_from, fewest))
            by_kernels = (number != 3 or not python_first for number in count())

            folded = fold_or_error(plan, ranges, unchanged_tables(plan), by_kernels)

            if folded is not None:
                encoded[way] += any(len(one.change) for one in folded.cells.values())
                unique[way] += 1 in folded.cells and len(folded.cells[1].change) > 0
                disputed[way] += bool(folded.keyed.get(1))
            assert outcome(plan, folded) == ordinary, (seed, way)
    assert bool(errors) is bool(lies)
    assert min(encoded.values()) > (5 if wild else 30)
    if not wild:
        assert max(unique.values()) == 0 if safe else min(unique.values()) > 20 and min(disputed.values()) > 5


def joined_from(fewest: int, *of: Any) -> Chains:
    return replace(chains_of(*of), fewest=fewest)


chains_of = Chains.of


def test_changes_are_written_in_the_order_of_their_keys(tmp_path: Path) -> None:
    ranges = log_of([[(0, key, key) for key in (7, 3, 5)], [(0, None, 4), (0, 8, None)]], tmp_path)
    found = fold_of(plan_of(*TABLES), ranges, {0}).cells[0]

    assert [row[0] for row in found.insert.rows()] == [b"4"]
    assert [row[0] for row in found.delete] == [b"8"]
    assert len(found.change) == 0  # nothing has changed
    other = log_of_history(random.Random(4), tmp_path, lies=0, wild=0)
    keys = [row[0] for row in fold_of(plan_of(*TABLES), other, {0}).cells[0].change.rows()]
    assert keys == sorted(keys, key=lambda key: int(key or 0))
    assert len(keys) > 2


def test_only_tables_written_as_logged_have_changes_as_cells(tmp_path: Path) -> None:
    """In safe mode, changes without an effect are written, too, and table 1 has a further unique key."""
    ranges = log_of([[(0, 1, 1), (1, 1, 1), (2, None, 2)]], tmp_path)
    exact, safe = (fold_of(replace(plan_of(*TABLES), safe=safe), ranges, {0, 1, 2}).cells for safe in (False, True))

    assert {table: len(one.change) for table, one in exact.items()} == {0: 0, 1: 0, 2: 0}
    assert {table: len(one.change) for table, one in safe.items()} == {0: 1, 2: 0}


@pytest.mark.parametrize("fewest", [1, 256])
def test_a_malformed_image_is_located(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fewest: int) -> None:
    """An ENUM has no ninth member. `fewest`: of the changes of a piece that are joined."""
    monkeypatch.setattr(Chains, "of", partial(joined_from, fewest))
    members = Column("note", 1, "enum", "enum('a','b')", True, "utf8mb4", "utf8mb4_bin")
    log, events = Log(), []
    images = [order(1)[:5] + bytes([index]) for index in (1, 2, 9)]
    log.begin()
    for pair in pairwise(images):
        log.table_map(types=(bytes([FIELD_TYPE.LONG, FIELD_TYPE.STRING]), bytes([FIELD_TYPE.ENUM, 1])))
        events.append(log.rows("update", list(pair)))
    log.xid()
    planned = plan_epoch([log.file(tmp_path)], Location(log.name, 4))
    assert isinstance(planned, Epoch)

    with pytest.raises(MalformedRows, match=f"file:{events[1]}"):
        fold_of(plan_of(replace(ONE, columns=(NOT_NULL, members))), planned.ranges, {0})


def test_a_null_in_a_key_is_rejected_by_the_target(tmp_path: Path) -> None:
    """At the source the key is UNIQUE, and its column is nullable."""
    log, of_null = Log(), b"\xfd" + order(1, b"x")[5:]
    log.begin()
    for kind, images in (("update", [order(5), order(5, b"y")]), ("insert", [of_null])):
        log.table_map(ONE.name)
        log.rows(kind, images)
    log.xid()
    planned = plan_epoch([log.file(tmp_path)], Location(log.name, 4))
    assert isinstance(planned, Epoch)
    nullable = replace(NOT_NULL, nullable=True)
    plan = plan_of(
        replace(ONE, columns=(nullable, ONE.columns[1]), unique_keys=(Index("id", ("id",), prefixes=(None,)),)),
        target=ONE,
    )

    folded = fold_of(plan, planned.ranges, unchanged_tables(plan))

    assert sorted(folded.keyed[0], key=repr) == [None, b"5"]


def test_only_the_table_with_a_moved_key_uses_the_compactor(tmp_path: Path) -> None:
    ranges = log_of([[(0, None, 1), (1, None, 1), (2, None, 1)], [(1, 1, 2), (2, None, 2)], [(1, None, 3)]], tmp_path)
    plan = plan_of(*TABLES)

    folded = fold_of(plan, ranges, unchanged_tables(plan))

    assert {table: len(one.insert) for table, one in folded.cells.items()} == {0: 1, 2: 2}
    assert [table for table, keyed in folded.keyed.items() if keyed] == [1]
    assert folded.changes == 6


def test_tables_with_another_write_mode_use_the_compactor() -> None:
    plan = plan_of(ONE)
    (source,) = plan.sources

    assert unchanged_tables(plan) == {0}
    for other in (
        replace(plan, compact=False),
        replace(plan, whole=True),
        replace(plan, merged=frozenset({0})),
        replace(plan, sources=(replace(source, order=(1, 0)),)),
        plan_of(ONE, THREE, target=ONE),
        plan_of(replace(ONE, unique_keys=())),
    ):
        assert unchanged_tables(other) == set()
