"""A task of DM continues here: its checkpoint is taken over in the middle of a workload, and every row is equal."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from airflow_provider_dm.engine.config.task import TaskMode
from airflow_provider_dm.engine.downstream import removal
from airflow_provider_dm.engine.downstream.claim import claim_generation, current_generation
from airflow_provider_dm.engine.downstream.errors import Fenced, SubtaskMissing, TargetWentBack
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.removal import remove_progress
from airflow_provider_dm.engine.downstream.session import run_transaction, target_connection
from airflow_provider_dm.engine.downstream.subtask import begin_subtask
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.errors import LeaseHeld
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.shard.lock import DdlInfo, reported
from airflow_provider_dm.engine.sync.checkpoint import CheckpointPoints, DmPoints
from airflow_provider_dm.engine.sync.start import begin_incremental
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.starts import with_starts
from tests.dm_tables import INT, LONG, NOT_NULL_KEY, VARCHAR, DmTable, column, index, table_info
from tests.integration.sync.conftest import HOLDER, SOURCE_ID, SyncKit, rows_of

TABLES = ("plain", "uniq", "pair")
OTHER = Location("other.000001", 4)


def both(kit: SyncKit, *statements: str) -> None:
    """One transaction of the source that DM has applied."""
    kit.write(*statements)
    for statement in statements:
        kit.target.sql(statement, database=kit.schema)


def only_there(kit: SyncKit, *statements: str) -> None:
    """Write what DM had applied of transactions after its checkpoint when it died."""
    for statement in statements:
        kit.target.sql(statement, database=kit.schema)


def inside_next(kit: SyncKit, here: Location) -> Location:
    """The place after the first rows event of the transaction that begins there."""
    events = kit.source.sql(f"SHOW BINLOG EVENTS IN '{here.file}' FROM {here.position}")
    return here.at(next(int(end) for _, _, kind, _, end, _ in events if str(kind).lower().startswith("write_rows")))


def uniq_info() -> dict[str, object]:
    columns = [
        column("id", INT, length=11, flag=NOT_NULL_KEY),
        column("u", INT, length=11),
        column("v", VARCHAR, length=40, collate="utf8mb4_bin"),
    ]
    return table_info("uniq", columns, [index("u", ("u",), unique=True)])


def plain_info() -> dict[str, object]:
    columns = [column("id", LONG, length=20, flag=NOT_NULL_KEY), column("v", VARCHAR, length=40, collate="utf8mb4_bin")]
    return table_info("plain", columns)


@pytest.mark.every_pair
def test_a_task_of_dm_continues_in_the_middle_of_a_workload(kit: SyncKit) -> None:
    kit.create(*TABLES)
    by_gtid = kit.source.flavour != kit.target.flavour
    kit.source_keys["enable-gtid"] = by_gtid
    dm = DmTable(kit.target, kit.meta_schema, relay_suffix=0 if by_gtid else 2)
    dm.create()
    both(kit, "INSERT INTO plain VALUES (1, 'a'), (2, 'b')", "INSERT INTO uniq VALUES (1, 1, 'a'), (2, 2, 'b')")
    both(kit, "INSERT INTO pair VALUES (1, 'x', 1), (2, 'y', 2)", "UPDATE plain SET v = 'c' WHERE id = 1")
    start = kit.upstream()
    # DM is killed: of what follows, plain is applied up to its own point, the rest in part, in no order.
    both(kit, "INSERT INTO plain VALUES (3, 'c')", "DELETE FROM plain WHERE id = 2")
    both(kit, "UPDATE plain SET v = 'd' WHERE id = 3")
    plain = kit.upstream()
    kit.write("UPDATE uniq SET u = NULL WHERE id = 1", "UPDATE uniq SET u = 1 WHERE id = 2", "DELETE FROM plain")
    here = kit.upstream()
    kit.write("INSERT INTO pair VALUES (3, 'z', 3)", "UPDATE pair SET a = 4, v = 5 WHERE a = 1")
    leaving = kit.upstream()
    only_there(kit, "DELETE FROM uniq WHERE id = 2", "INSERT INTO pair VALUES (3, 'z', 3)")
    # Then the workload continues, with DDL.
    kit.write("INSERT INTO plain VALUES (7, 'x')", "UPDATE pair SET v = v + 1")
    kit.write("ALTER TABLE uniq ADD COLUMN w int NOT NULL DEFAULT 7 FIRST, MODIFY v varchar(60)")
    kit.write("INSERT INTO uniq VALUES (8, 9, 9, 'new')", "UPDATE uniq SET w = 1 WHERE id = 1")
    begin_at, today = start, kit.upstream()
    places = [start, plain, leaving, inside_next(kit, here)]
    if by_gtid:  # as another server named them, before a failover
        places = [replace(place, file=f"old-bin.{90 + number:06d}") for number, place in enumerate(places)]
    start, plain, exit_point, pair = places
    if by_gtid:
        dm.put(start).put(plain, table=(kit.schema, "plain"), info=plain_info())
        dm.put(start, table=(kit.schema, "uniq"), info=uniq_info())
        assert re.search("DM-6080.*how much of its last transaction", str(refusal(kit)))
        dm.target.sql(f"DELETE FROM {dm.name}")
        plain = pair = start
    dm.put(plain, table=(kit.schema, "plain"), info=plain_info())
    dm.put(start, table=(kit.schema, "uniq"), info=uniq_info())
    dm.put(pair, table=(kit.schema, "pair"))
    dm.put(start, leaving=exit_point)
    kit.begin(begin_at)
    ((until,),) = kit.target.sql(f"SELECT overwrite_until FROM `{kit.meta_schema}`.dm_subtask")
    until = Location.from_json(json.loads(until))
    expected = today if by_gtid else leaving  # by its set alone it may lie inside a transaction after that
    assert (until.position, until.gtid_set) == (expected.position, expected.gtid_set)
    kit.sync_and_compare()
    assert kit.target.sql(f"SELECT overwrite_until FROM `{kit.meta_schema}`.dm_subtask") == [(None,)], "for good"
    end = kit.upstream()
    assert [row for row in dm.rows() if row[-1]] == [
        ("", "", end.file, end.position, end.gtid_set, end.file, end.position, end.gtid_set, 1)
    ], "and DM could continue from here"
    ((stored,),) = dm.target.sql(f"SELECT table_info FROM {dm.name} WHERE cp_table = 'uniq'")
    assert [one["name"]["O"] for one in json.loads(stored)["cols"]] == ["w", "id", "u", "v"]


def refusal(kit: SyncKit) -> DmError:
    """The error of a sync that leaves nothing in the target."""
    kit.pull()
    with pytest.raises(DmError) as raised:
        kit.run(kit.spec("caught-up"))
    assert kit.target.sql(f"SELECT start_location FROM `{kit.meta_schema}`.dm_subtask") == [(None,)]
    return raised.value


def test_an_unusable_part_of_a_checkpoint_is_refused(one_kit: SyncKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be understood, or does not fit, is refused before the first row."""
    one_kit.create("plain", "keyless")
    dm = DmTable(one_kit.target, one_kit.meta_schema)
    dm.create()
    start = one_kit.upstream()
    one_kit.write("INSERT INTO plain VALUES (1, 'log')")
    end = one_kit.upstream()
    plain, keyless = (one_kit.schema, "plain"), (one_kit.schema, "keyless")
    cases: dict[str, tuple[str, Callable[[], object]]] = {
        "a column": ("DM-6080.*unknown columns.*newer", lambda: dm.put(start).add_column("newer")),
        "no global point": ("DM-6080.*no global point", lambda: dm.put(start, table=plain)),
        "another server's": ("DM-6080.*cannot be compared", lambda: dm.put(start).put(OTHER, table=plain)),
        "behind the end": (
            "DM-6080.*after the end",
            lambda: dm.put(start, leaving=start).put(end.at(end.position + 99), table=plain),
        ),
        "an unknown table": (
            "DM-6080.*neither the point nor a server",
            lambda: dm.put(start, leaving=start).put(end, table=(one_kit.schema, "gone")),
        ),
        "GTIDs of others": (
            "DM-6080.*do not agree",
            lambda: dm.put(replace(start, gtid_set="3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"), leaving=start),
        ),
        "rows without a key": ("DM-6082.*keyless", lambda: dm.put(start, leaving=end)),
        "no place": ("DM-6048", lambda: dm.put(start.at(start.position + 1), leaving=start)),
    }
    for what, (message, leave) in cases.items():
        leave()
        error = refusal(one_kit)
        assert re.search(message, str(error)), (what, str(error))
        dm.target.sql(f"DROP TABLE {dm.name}")
        dm.create()
    dm.target.sql(f"CREATE TABLE `{one_kit.meta_schema}`.test_syncer_sharding_meta AS SELECT 's1' AS source_id")
    dm.put(start, leaving=start)
    assert "shards of a merged table" in str(refusal(one_kit))
    dm.target.sql(f"DROP TABLE `{one_kit.meta_schema}`.test_syncer_sharding_meta")
    with monkeypatch.context() as patched:  # DM writes between our check and our start
        patched.setattr(begin_incremental, "begin_subtask", dm.moved_before(begin_subtask))
        assert refusal(one_kit).code == "DM-6083"
    dm.target.sql(f"DELETE FROM {dm.name}")
    # After a clean stop, tables without a key continue, too.
    one_kit.write("INSERT INTO keyless VALUES (1, 'x'), (1, 'x')")
    dm.put(start, leaving=start)
    dm.put(start, table=keyless)
    one_kit.sync_and_compare()


def test_rows_before_a_tables_point_are_not_touched(one_kit: SyncKit) -> None:
    one_kit.create("plain", "uniq")
    one_kit.task = "shop's 50% `Task`"
    dm = DmTable(one_kit.target, one_kit.meta_schema, task=one_kit.task)
    dm.create()
    early = one_kit.upstream()
    one_kit.write("INSERT INTO plain VALUES (3, 'before DM')", "DELETE FROM plain")
    start = one_kit.upstream()
    one_kit.write("INSERT INTO plain VALUES (1, 'log')", "INSERT INTO uniq VALUES (1, 1, 'log')")
    one_kit.target.sql("INSERT INTO plain VALUES (1, 'by DM')", database=one_kit.schema)
    dm.put(one_kit.upstream(), table=(one_kit.schema, "plain"))
    dm.put(start, table=("elsewhere", "left_out"))  # of a table that DM has migrated, and this task does not
    dm.put(start)
    one_kit.write("INSERT INTO plain VALUES (2, 'log')")
    # A DM at work writes every 30 s: no exit point, and a write of just now.
    dm.target.sql(f"UPDATE {dm.name} SET update_time = NOW() - INTERVAL 50 SECOND WHERE is_global")
    assert refusal(one_kit).code == "DM-6083"
    dm.target.sql(f"UPDATE {dm.name} SET update_time = NOW() - INTERVAL 1 DAY")
    # A run that ends before it has applied anything leaves DM's word; `meta` of the task counts as little as with DM.
    left = dm.rows()
    one_kit.begin(start)
    assert dm.rows() == left
    one_kit.sync(start=early)
    assert rows_of(one_kit.target, one_kit.schema, "plain") == [(1, b"by DM"), (2, b"log")]
    assert rows_of(one_kit.target, one_kit.schema, "uniq") == [(1, 1, b"log")]
    end, target = one_kit.upstream(), one_kit.endpoint(one_kit.target, "target").resolve()
    # A run writes no point that is ahead of the rows, and a replaced run writes none at all.
    before = dm.rows()
    assert [(row[1], row[3]) for row in before] == [("", end.position), ("plain", end.position), ("uniq", end.position)]
    source = SyncSource.of(
        one_kit.spec(), Fence(one_kit.ref, current_generation(target_connection(target), one_kit.ref))
    )
    later = CheckpointPoints(end.at(end.position + 1), end)
    with pytest.raises(TargetWentBack):
        points(source, target).write(later)
    claim_generation(target, Fence(one_kit.ref, source.fence.generation + 1))
    with pytest.raises(Fenced):
        points(source, target).write(CheckpointPoints(end, end))
    assert dm.rows() == before
    # A task that has begun here continues here, whatever DM's table contains by now; the table is not copied.
    dm.target.sql(f"UPDATE {dm.name} SET binlog_pos = 4, binlog_name = '{one_kit.first_file}'")
    dm.target.sql(f"ALTER TABLE {dm.name} DROP COLUMN binlog_pos")
    one_kit.write("UPDATE plain SET v = 'new' WHERE id = 2")
    one_kit.sync()
    assert rows_of(one_kit.target, one_kit.schema, "plain") == [(1, b"by DM"), (2, b"new")]


def points(source: SyncSource, target: Endpoint) -> DmPoints:
    return DmPoints(source, partial(run_transaction, target))


def fail(_connection: object, fence: Fence) -> None:
    raise SubtaskMissing(*fence.ref.key)


def test_a_task_that_was_taken_over_is_forgotten(one_kit: SyncKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """DM has loaded it, and it cannot be removed during a run."""
    one_kit.create("plain")
    start = one_kit.upstream()
    one_kit.write("INSERT INTO plain VALUES (2, 'log')")
    dm = DmTable(one_kit.target, one_kit.meta_schema)
    dm.create()
    dm.put(start, leaving=start)
    target, source = one_kit.endpoint(one_kit.target, "target").resolve(), one_kit.source_spec()
    whole = one_kit.spec().task.model_copy(update={"task_mode": TaskMode.ALL})
    begins = with_starts(Inputs(whole, (source.config,), (source.endpoint.resolve(),), target)).task
    assert (begins.task_mode, str(begins.subtask(SOURCE_ID).start)) == (TaskMode.INCREMENTAL, str(start))
    one_kit.sync_and_compare()

    def forget() -> list[str]:
        return remove_progress(one_kit.store, target, one_kit.meta_schema, one_kit.task, [SOURCE_ID], who="test")

    lease = one_kit.store.acquire_lease(one_kit.task, SOURCE_ID, HOLDER, ttl_seconds=30, at_least=0)
    with pytest.raises(LeaseHeld):
        forget()
    assert dm.rows("is_global")
    one_kit.store.release_lease(lease)
    # A target that fails keeps what it needs of the log.
    (before,) = one_kit.store.list_subtasks(task=one_kit.task)
    with monkeypatch.context() as patched:
        patched.setattr(removal, "_remove", fail)
        with pytest.raises(SubtaskMissing):
            forget()
    (noted,) = one_kit.store.list_subtasks(task=one_kit.task)
    assert (noted.needed, noted.applied) == (before.needed, None)
    # Tables of the metadata DB may be in the same schema.
    lease_table = f"`{one_kit.meta_schema}`.dm_lease"
    one_kit.target.sql(f"CREATE TABLE {lease_table} AS SELECT task, source FROM `{one_kit.meta_schema}`.dm_subtask")
    info, merged = DdlInfo(SOURCE_ID, ("ADD c int",)), TableName(one_kit.schema, "merged")
    lock = reported(None, one_kit.task, merged, 0, info, {SOURCE_ID, "another"})
    one_kit.store.change_ddl_lock(one_kit.task, lock.id, 0, lambda _found: lock.to_json())
    assert forget() == [SOURCE_ID]
    assert one_kit.store.ddl_locks(one_kit.task) == [], "a report of a life that is over would be waited for for ever"
    assert dm.rows("is_global") == []
    assert one_kit.target.sql(f"SELECT source FROM {lease_table}") == [(SOURCE_ID,)]
    assert one_kit.target.sql(f"SELECT start_location FROM `{one_kit.meta_schema}`.dm_subtask") == [(None,)]
    assert one_kit.target.sql(f"SELECT * FROM `{one_kit.meta_schema}`.dm_frontier") == []
    assert one_kit.store.list_subtasks(task=one_kit.task) == []
    assert "needs a start" in str(refusal(one_kit)), "the task begins from nothing"
