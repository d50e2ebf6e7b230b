"""A driver's checks of rows that wait, one by one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from airflow_provider_dm.engine.downstream.contested_row import (
    ContestedRow,
    RowOwner,
    change_contested,
    contest,
    oldest_rows,
)
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget, Fenced
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.row_key import row_key
from airflow_provider_dm.engine.downstream.shard_groups import HeldShard
from airflow_provider_dm.engine.downstream.table_schema import Feeder
from airflow_provider_dm.engine.merge import contests
from airflow_provider_dm.engine.merge.contests import CONFIRM_SECONDS, Contests
from airflow_provider_dm.engine.merge.errors import RowsCollide, RowWaitsForHeldRow
from airflow_provider_dm.engine.merge.owner_writer import OwnerWriter, TargetAccess
from airflow_provider_dm.engine.merge.servers import ContestServers, KeyHolder, KeyValues
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.shard.group import Member, ShardDdl
from tests.jobs import NOWHERE
from tests.unit.sync.sqlite_target import META, Database
from tests.unit.sync.target_tables import TARGETS

REF = SubtaskRef(META, "task", "source_0")
TARGET = TARGETS[0]
MINE, OTHER = (replace(TARGET, name=TableName(f"shop_{source}", "plain_0")) for source in range(2))


def exempt_none(_mapping: TableMapping) -> bool:
    return False


@dataclass
class Around(ContestServers):
    """A target whose rows all belong to source_1, and the keys that each source has now."""

    target: Endpoint = field(default_factory=NOWHERE.resolve)
    ref: SubtaskRef = REF
    sources: Mapping[str, Endpoint] = field(default_factory=dict)
    time: float = 0.0
    here: dict[str, set[bytes]] = field(default_factory=lambda: {"source_0": set(), "source_1": set()})
    ended: dict[str, Location] = field(default_factory=dict)
    reached: dict[str, Location] = field(default_factory=dict)
    held: list[HeldShard] = field(default_factory=list)
    releasing: bool = False
    database: Database = field(init=False)

    def __post_init__(self) -> None:
        self.database = Database(lambda: self.time)
        self.database.sqlite.execute(
            f"INSERT INTO {META}.dm_subtask (task, source, generation) VALUES ('task', 'source_0', 1)"
        )

    def wait(self, keys: set[bytes]) -> None:
        """Rows of source_0 wait for these places, which source_1's rows hold."""
        for source in self.here.values():
            source |= keys
        owner = RowOwner(REF, MINE.name)
        contest(self.database.connection(), owner, TARGET.name, [(row_key([key]), (key, b"0")) for key in sorted(keys)])
        self.database.sqlite.executemany("INSERT INTO shop.plain VALUES (?, 1)", [(int(key),) for key in keys])

    def rename(self, name: TableName) -> None:
        self.database.sqlite.execute(f"UPDATE {META}.dm_contested_row SET table_name = ?, table_schema = ?", name[::-1])

    def changes(self, *_asked: object) -> bool:
        """The log has given the row another image while its source was asked for it."""
        change_contested(self.database.connection(), RowOwner(REF, MINE.name), [(row_key([b"1"]), (b"1", b"9"))])
        return False

    def free(self, key: bytes) -> None:
        self.database.sqlite.execute("DELETE FROM shop.plain WHERE k = ?", (int(key),))
        self.here["source_1"].discard(key)

    def transactions(self, body: Any) -> Any:
        return self.database.transaction(body, None)

    def access(self) -> TargetAccess:
        return self.database.access()

    def mapped(self, source: str, table: TableName, target: TableName) -> TableMapping:
        return TableMapping(MINE, TARGET)

    def feeders(self) -> list[Feeder]:
        return [Feeder("source_0", MINE.name, TARGET.name), Feeder("source_1", OTHER.name, TARGET.name)]

    def held_shards(self, target: TableName) -> list[HeldShard]:
        return self.held

    def is_releasing(self, target: TableName) -> bool:
        return self.releasing

    def holders(self, row: ContestedRow, mapping: TableMapping) -> list[KeyHolder]:
        return [KeyHolder(TARGET.unique_keys[0], {"k": row.row[0]}, {"k": row.row[0]})]

    def has(self, source: str, table: TableName, values: KeyValues, typed: Table) -> bool:
        return values["k"] in self.here[source]

    def ends(self, sources: object) -> dict[str, Location] | None:
        return dict(self.ended) if self.ended else None

    def applied(self, source: str) -> Location | None:
        return self.reached.get(source)

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> bool:
        self.time += seconds
        assert self.time < 100, "it waits for ever"
        return False


@pytest.fixture
def around() -> Around:
    return Around()


@pytest.fixture
def checks(around: Around) -> Contests:
    return Contests(Fence(REF, 1), around, most=1000)


def test_a_row_that_was_placed_does_not_delay_the_check(around: Around, checks: Contests) -> None:
    around.wait({b"1", b"2"})
    around.here["source_1"].discard(b"2")  # its log will say so
    checks.check(exempt_none, now=True)

    around.free(b"1")

    assert checks.confirm(around.sleep, exempt_none) == 1
    assert around.time == 0


def test_a_collision_is_reported_when_it_was_found_twice_in_a_row(around: Around, checks: Contests) -> None:
    around.wait({b"1", b"2"})
    around.here["source_1"].discard(b"2")
    checks.check(exempt_none, now=True)
    around.sleep(CONFIRM_SECONDS)
    around.here["source_1"] = {b"2"}
    assert checks.check(exempt_none, now=True) == 2

    with pytest.raises(RowsCollide) as collided:
        checks.confirm(around.sleep, exempt_none)

    assert collided.value.values == ("(2)",)


def test_all_waiting_rows_are_examined_in_turn(
    around: Around, checks: Contests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contests, "ROWS_EXAMINED_NOW", 2)
    around.wait({b"%d" % number for number in range(4)})
    around.here["source_1"].clear()
    checks.check(exempt_none, now=True)
    checks.check(exempt_none, now=True)
    around.here["source_1"] = {b"0", b"1", b"2", b"3"}

    with pytest.raises(RowsCollide):
        checks.confirm(around.sleep, exempt_none)  # after the last one there are none: from the first one on


def test_a_replaced_driver_moves_no_row(around: Around) -> None:
    around.wait({b"1"})
    around.free(b"1")
    with pytest.raises(Fenced):
        Contests(Fence(REF, 0), around, most=1000).check(exempt_none)
    assert around.database.sqlite.execute("SELECT * FROM shop.plain").fetchall() == []


def test_a_row_waits_in_the_column_order_of_its_own_table(around: Around) -> None:
    around.database.sqlite.execute("INSERT INTO shop.plain VALUES (1, 9)")
    owner, tx = RowOwner(REF, MINE.name), around.database.connection()
    writer = OwnerWriter(owner, TableMapping(TARGET, TARGET), around.access(), most_waiting=1, own_order=(1, 0))

    assert writer.insert(tx, (), writer.rows([(b"1", b"7")], [(b"1", b"7")])) == 1

    assert [one.row for one in oldest_rows(tx, REF, seconds=0, after=0, most=9)] == [(b"7", b"1")]


# A place that is held by a row which no source has


def of_server(name: str, position: int, *, suffix: int = 1) -> Location:
    """Each server has a log of its own, with files of the same names."""
    return Location("bin.000001", position, suffix=suffix, server_uuid=name)


def test_a_row_that_waits_for_a_held_shard_stops_if_nothing_is_released(around: Around, checks: Contests) -> None:
    around.wait({b"1"})
    around.here["source_1"].clear()
    around.held = [HeldShard("source_1", TARGET.name, Member(OTHER.name, OTHER, ()))]
    place = of_server("one", 100)
    around.reached = around.ended = {"source_0": place, "source_1": place}
    around.releasing = True
    for _ in range(5):
        assert checks.check(exempt_none, now=True) == 1, "source_1 has rows to apply, and may be paused"
    around.releasing = False
    for _ in range(2):
        assert checks.check(exempt_none, now=True) == 1, "from here on both logs are applied to their ends twice"
    with pytest.raises(
        RowWaitsForHeldRow, match=r"1 rows of source_0 .*the row \(k: 1\) of .*the row \(k: 1\).*\(source_1\) are held"
    ):
        checks.check(exempt_none, now=True)


@pytest.mark.parametrize("meanwhile", ["nothing", "another key", "another name", "another image"])
def test_a_deleted_row_drops_its_image_if_its_log_is_held_back(
    around: Around, checks: Contests, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    around.wait({b"1"})
    around.here["source_0"].clear()
    assert checks.check(exempt_none, now=True) == 1, "its own log still has the row"
    place = of_server("one", 100)
    form = replace(MINE, unique_keys=()) if meanwhile == "another key" else MINE
    member = Member(MINE.name, MINE, (ShardDdl(place, place, (), form, place, {}),))
    around.held = [HeldShard("source_0", TARGET.name, member)]
    around.reached = {"source_0": of_server("one", 100)}
    around.ended = {"source_0": of_server("one", 200)}
    for _ in range(2):
        assert checks.check(exempt_none, now=True) == 1, "its table may have another name behind 100"
    around.reached = around.ended
    if meanwhile == "another name":
        around.held = [HeldShard("source_0", TARGET.name, replace(member, table=OTHER.name))]
        around.rename(OTHER.name)
        checks.check(exempt_none, now=True)
        assert checks.count() == 1, "another table may have had the old name when it was asked for the row"
    with monkeypatch.context() as patched:
        if meanwhile == "another image":
            patched.setattr(around, "has", around.changes)
        checks.check(exempt_none, now=True)
    assert checks.count() == int(meanwhile in ("another key", "another image")), (
        "without an image it is found by its key"
    )


def test_a_foreign_row_is_reported_in_the_log_of_the_new_server(around: Around, checks: Contests) -> None:
    """An upstream reports the end of its own log; only a reader of the log knows the sub-directory."""
    around.wait({b"1"})
    around.here["source_1"].clear()
    other = of_server("other", 100)
    around.reached = {"source_0": of_server("old", 900), "source_1": other}
    around.ended = {"source_0": of_server("old", 1000), "source_1": other}
    checks.check(exempt_none, now=True)
    checks.check(exempt_none, now=True)

    around.reached["source_0"] = of_server("new", 200, suffix=2)  # after all of the old server's log
    around.ended["source_0"] = of_server("new", 300)
    for _ in range(3):
        assert checks.check(exempt_none, now=True) == 1
    around.reached["source_0"] = of_server("new", 300, suffix=2)
    assert checks.check(exempt_none, now=True) == 1, "the first of two times"

    with pytest.raises(DuplicateInTarget):
        checks.check(exempt_none, now=True)


def test_a_foreign_row_is_reported_after_the_new_servers_log_is_applied(around: Around, checks: Contests) -> None:
    """A later sub-directory is not after every place of the server that answers now."""
    around.wait({b"1"})
    around.here["source_1"].clear()
    around.reached = dict.fromkeys(("source_0", "source_1"), of_server("new", 200, suffix=2))
    around.ended = dict.fromkeys(("source_0", "source_1"), of_server("new", 300))

    for _ in range(5):
        assert checks.check(exempt_none, now=True) == 1
