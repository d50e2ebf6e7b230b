"""Safe mode on real servers: the seed's rewriting, its three restart situations, and what is exact all the same."""

import pytest

from airflow_provider_dm.engine.downstream.safe_mode_window import SafeModeWindow, load_window
from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.errors import MissingRow
from airflow_provider_dm.engine.sync.noting import SyncNotes
from airflow_provider_dm.engine.sync.progress import SyncProgress
from tests.dm_tables import DmTable
from tests.integration.sync.conftest import SyncKit, rows_of

ALWAYS: dict[str, object] = {"safe-mode": True}
NOON = 1_700_000_000


def run(kit: SyncKit, syncer: dict[str, object], start: Location | None = None) -> SyncProgress:
    """Sync to the end of the log with these keys of a syncer."""
    kit.pull()
    kit.instance_keys["syncer"], progress = syncer, SyncProgress()
    try:
        kit.run(kit.spec("caught-up", start), progress=progress)
    finally:
        kit.instance_keys.clear()
    return progress


def create(kit: SyncKit, table: str, columns: str) -> None:
    kit.both(f"CREATE TABLE {table} ({columns})")


def on_target(kit: SyncKit, *statements: str) -> None:
    for statement in statements:
        kit.target.sql(statement, database=kit.schema)


def collisions(kit: SyncKit, progress: SyncProgress) -> dict[str, tuple[int, int]]:
    """Return, by table, how many rows were missing and how many were in the way."""
    found = progress.to_json()["safe_mode"]["collisions"]
    return {table.removeprefix(f"{kit.schema}."): (one["missing"], one["present"]) for table, one in found.items()}


def test_the_worked_example_is_rewritten(kit: SyncKit) -> None:
    """The statements of seeds/004, executed again in a target that has them already."""
    _ = kit.first_file
    create(kit, "dummytbl", "id int PRIMARY KEY, int_value int, str_value varchar(20)")
    kit.both("INSERT INTO dummytbl VALUES (888, 888888, 'abc888')")
    kit.begin()
    life = (
        "INSERT INTO dummytbl (id, int_value, str_value) VALUES (123, 999, 'abc')",
        "UPDATE dummytbl SET int_value = 888999 WHERE int_value = 999",
        "UPDATE dummytbl SET id = 999 WHERE id = 888",
    )
    for statement in life:
        kit.write(statement)
        on_target(kit, statement)

    progress = run(kit, ALWAYS)

    assert rows_of(kit.target, kit.schema, "dummytbl") == rows_of(kit.source, kit.schema, "dummytbl")
    assert rows_of(kit.target, kit.schema, "dummytbl") == [(123, 888999, b"abc"), (999, 888888, b"abc888")]
    assert collisions(kit, progress) == {"dummytbl": (1, 2)}  # 888 is gone; 123 and 999 are there
    shown = progress.to_json()["safe_mode"]
    assert (shown["on"], shown["why"], shown["exit_point"]) == (True, "safe-mode: true", None)


def test_collisions_are_overwritten_and_counted_and_other_rows_are_exact(one_kit: SyncKit) -> None:
    one_kit.create("keyless")
    create(one_kit, "uniq", "id int PRIMARY KEY, u int UNIQUE, v int")
    create(one_kit, "wider", "id int PRIMARY KEY, u int UNIQUE, v int")
    create(one_kit, "simple", "id int PRIMARY KEY, v int")
    on_target(one_kit, *(f"ALTER TABLE {table} ADD COLUMN ours varchar(9)" for table in ("wider", "simple")))
    one_kit.begin()

    one_kit.write(
        "INSERT INTO uniq VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4)",
        "INSERT INTO wider SELECT * FROM uniq",
        "INSERT INTO simple SELECT id, v FROM uniq",
        "INSERT INTO keyless VALUES (1, 'x'), (1, 'x')",
    )
    on_target(
        one_kit,
        "INSERT INTO uniq VALUES (1, 9, 0), (8, 2, 0)",
        "INSERT INTO wider VALUES (1, 9, 0, 'kept'), (8, 2, 0, 'gone')",
        "INSERT INTO simple VALUES (1, 9, 'kept')",
    )
    first = run(one_kit, ALWAYS)
    assert collisions(one_kit, first) == {"uniq": (0, 2), "wider": (0, 2), "simple": (0, 1)}

    for table in ("uniq", "wider"):
        one_kit.write(f"UPDATE {table} SET v = 7 WHERE id IN (1, 2)", f"UPDATE {table} SET id = 33 WHERE id = 3")
        one_kit.write(f"DELETE FROM {table} WHERE id = 4", f"INSERT INTO {table} VALUES (50, 50, 5)")
        one_kit.write(f"DELETE FROM {table} WHERE id = 50")
        on_target(one_kit, f"DELETE FROM {table} WHERE id IN (2, 3)")
    on_target(one_kit, "INSERT INTO uniq VALUES (50, 50, 1)", "UPDATE simple SET id = 5 WHERE id = 1")
    one_kit.write("UPDATE simple SET v = 8")
    second = run(one_kit, ALWAYS)
    assert collisions(one_kit, second) == {"uniq": (2, 1), "wider": (2, 0), "simple": (1, 0)}

    for table in ("keyless", "uniq"):
        assert rows_of(one_kit.target, one_kit.schema, table) == rows_of(one_kit.source, one_kit.schema, table)
    wider, simple = (
        one_kit.target.sql(f"SELECT * FROM `{one_kit.schema}`.{name} ORDER BY id") for name in ("wider", "simple")
    )
    assert list(wider) == [(1, 1, 7, "kept"), (2, 2, 7, None), (33, 3, 3, None)]
    assert list(simple) == [(1, 8, None), (2, 8, None), (3, 8, None), (4, 8, None), (5, 1, "kept")]

    one_kit.write("DELETE FROM keyless")
    on_target(one_kit, "DELETE FROM keyless LIMIT 1")
    with pytest.raises(MissingRow):
        run(one_kit, ALWAYS)


def at(kit: SyncKit, second: int, *statements: str) -> None:
    """Write a transaction, at that second of the log's time."""
    with kit.source.connect(database=kit.schema, autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET timestamp = {NOON + second}")
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


def change(kit: SyncKit, *seconds: int) -> list[Location]:
    """Change rows 1, 2, …, which only the source has, each at a second of the log's time. Returns where each ends."""
    ends = []
    for number, second in enumerate(seconds, 1):
        at(kit, second, f"UPDATE plain SET v = 'changed' WHERE id = {number}")
        ends.append(kit.upstream())
    return ends


def there(kit: SyncKit) -> list[int]:
    return [int(number) for (number,) in kit.target.sql(f"SELECT id FROM `{kit.schema}`.plain ORDER BY id")]


def prepare(kit: SyncKit) -> Location:
    """Make a table with rows that only the source has; return where the log ends then."""
    kit.create("plain")
    kit.write("INSERT INTO plain VALUES (1, ''), (2, ''), (3, ''), (4, ''), (5, '')")
    kit.pull()
    return kit.upstream()


def left_by_dm(kit: SyncKit, point: Location, exit_point: Location) -> DmTable:
    checkpoint = DmTable(kit.target, kit.meta_schema)
    checkpoint.create()
    return checkpoint.put(point, leaving=exit_point)


BRIEF: dict[str, object] = {"checkpoint-flush-interval": 1}


def test_safe_mode_ends_at_the_exit_point_regardless_of_log_time(one_kit: SyncKit) -> None:
    start = prepare(one_kit)
    ends = change(one_kit, 0, 3600, 3601)
    left_by_dm(one_kit, start, ends[1])

    for _ in range(2):
        with pytest.raises(MissingRow):
            run(one_kit, BRIEF)
        assert there(one_kit) == [1, 2]

    on_target(one_kit, "INSERT INTO plain VALUES (3, '')")
    progress = run(one_kit, BRIEF)
    assert (there(one_kit), progress.to_json()["safe_mode"]["on"]) == ([1, 2, 3], False)


def test_a_restart_after_a_clean_stop_needs_no_safe_mode(one_kit: SyncKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit point is the checkpoint itself; not any more when our first epoch may be there in part."""
    start = prepare(one_kit)
    (end,) = change(one_kit, 0)
    checkpoint = left_by_dm(one_kit, start, start)
    columns = "binlog_pos, exit_safe_binlog_name, exit_safe_binlog_pos"

    with monkeypatch.context() as patched:  # as if it were killed in there
        patched.setattr(SyncNotes, "exit_point", lambda *_: None)
        with pytest.raises(MissingRow):
            run(one_kit, {})
    assert there(one_kit) == []
    assert checkpoint.rows(columns) == [(start.position, "", 0)]
    with pytest.raises(MissingRow):
        run(one_kit, {})
    assert checkpoint.rows(columns) == [(start.position, end.file, end.position)]


def test_a_restart_without_an_exit_point_is_safe_for_two_intervals_of_log_time(one_kit: SyncKit) -> None:
    """Not of the clock's: the log's advances by seconds while nothing has, goes back, and jumps."""
    start = prepare(one_kit)
    one_kit.instance_keys["syncer"] = {}
    one_kit.run(one_kit.spec(str(start), start))  # begins, and has nothing to do
    window = load_window(target_connection(one_kit.endpoint(one_kit.target, "target").resolve()), one_kit.ref)
    assert window == SafeModeWindow(60)
    ends = change(one_kit, 0, 30, -3600, 60, 61)

    one_kit.instance_keys["syncer"], progress = {}, SyncProgress()
    one_kit.run(one_kit.spec(str(ends[1])), progress=progress)
    shown = progress.to_json()["safe_mode"]
    assert (shown["on"], shown["until"]) == (
        True,
        f"the first transaction that commits at {NOON + 60} (seconds since 1970) or later",
    )
    assert collisions(one_kit, progress) == {"plain": (2, 0)}
    for _ in range(2):
        with pytest.raises(MissingRow):
            run(one_kit, {})
        assert there(one_kit) == [1, 2, 3, 4]
    noted = load_window(target_connection(one_kit.endpoint(one_kit.target, "target").resolve()), one_kit.ref)
    assert noted is not None
    assert (noted.ends_at, str(noted.exit)) == (NOON + 60, str(ends[3]))
