"""A whole migration as a DAG, run by `dag.test()` with real servers and Spark: precheck, copy, sync, verify."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from airflow.listeners import hookimpl
from airflow.sdk import DAG, AssetAlias
from airflow.sdk.listener import get_listener_manager

from airflow_provider_dm.hooks.checkpoint import CheckpointHook
from airflow_provider_dm.operators.checkpoint import DmCheckpointOperator
from airflow_provider_dm.operators.full_migration import DmFullMigrationOperator
from airflow_provider_dm.operators.incremental_sync import DmIncrementalSyncOperator
from airflow_provider_dm.operators.precheck import DmPrecheckOperator
from airflow_provider_dm.operators.sources import DmSourcesOperator
from airflow_provider_dm.operators.table_schema import DmTableSchemaOperator
from airflow_provider_dm.operators.verify import DmVerifyOperator
from testbed import Server
from tests.airflow.support import Define, RunDag, context

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]
CANARY = "c4nary-of-the-migration"
RULES = {"route-rules": ["merge"], "block-allow-list": "ours"}


@pytest.fixture
def shards(
    mysql_source: Server, mariadb_source: Server, mysql_target: Server, unique_database: str, connection: Define
) -> str:
    """Two sources of both flavours with the same sharded table, connections to them and to the target."""
    connections = {"shard_01": mysql_source, "shard_02": mariadb_source, "dm_target": mysql_target}
    for number, (conn_id, server) in enumerate(connections.items()):
        server.create_user("migrate", CANARY)
        connection(
            conn_id, conn_type="dm_database", host=server.host, port=server.port, login="migrate", password=CANARY
        )
        if conn_id != "dm_target":
            server.sql(
                f"CREATE DATABASE `{unique_database}_{number}`;"
                f"CREATE TABLE `{unique_database}_{number}`.orders (id BIGINT PRIMARY KEY, note VARCHAR(40), n INT);"
            )
            write(server, f"{unique_database}_{number}", start=number * 1000)
    connection("spark_default", conn_type="spark", host="local[1]")
    return unique_database


def write(server: Server, schema: str, *, start: int, rows: int = 200) -> None:
    values = ", ".join(f"({start + one}, 'row {one}', {one})" for one in range(rows))
    server.sql(f"INSERT INTO `{schema}`.orders VALUES {values}")


def task_of(database: str) -> dict[str, Any]:
    """A DM task as a DAG may hold it: no login in it."""
    return {
        "name": database,
        "task-mode": "all",
        "meta-schema": f"{database}_meta",
        "mysql-instances": [{"source-id": "shard_01", **RULES}, {"source-id": "shard_02", **RULES}],
        "routes": {"merge": {"schema-pattern": f"{database}_*", "target-schema": database}},
        "block-allow-list": {"ours": {"do-dbs": [f"{database}_0", f"{database}_1"]}},
    }


class OperatorLineage(NamedTuple):
    """What OpenLineage's provider calls so."""

    inputs: list[Any]
    outputs: list[Any]


class Dataset(NamedTuple):
    """What OpenLineage's client calls so."""

    namespace: str
    name: str


@pytest.fixture
def openlineage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two classes of OpenLineage that we use, for an environment without it."""
    for module, kind in (
        ("airflow.providers.openlineage.extractors", OperatorLineage),
        ("openlineage.client.event_v2", Dataset),
    ):
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{kind.__name__: kind}))


class Lineage:
    """A listener that asks a task's operator as OpenLineage's does."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    @hookimpl
    def on_task_instance_success(self, previous_state: Any, task_instance: Any) -> None:
        on_complete = getattr(task_instance.task, "get_openlineage_facets_on_complete", None)
        if on_complete is not None:
            self.found[task_instance.task_id] = on_complete(task_instance)


def states(run: Any) -> dict[str, tuple[str, int]]:
    return {ti.task_id: (ti.state, ti.try_number) for ti in run.get_task_instances()}


def test_two_sources_into_one_target(
    shards: str,
    mysql_source: Server,
    mariadb_source: Server,
    mysql_target: Server,
    work_dir: Path,
    run_dag: RunDag,
    capfd: pytest.CaptureFixture[str],
    openlineage: None,
    forked_relays: None,
) -> None:
    task = task_of(shards)
    with DAG("migrate", default_args={"target_conn_id": "dm_target"}) as dag:
        check = DmPrecheckOperator(task_id="precheck", task=task)
        sources = DmSourcesOperator(task_id="sources", task=task)
        copy = DmFullMigrationOperator.partial(task_id="copy", task=task, outlets=[AssetAlias("copied")]).expand(
            sources=sources.output.map(lambda source: [source])
        )

        # In the middle of the DAG the sources are written to, so that there is something to follow.
        @dag.task
        def disturb() -> None:
            for number, server in enumerate((mysql_source, mariadb_source)):
                write(server, f"{shards}_{number}", start=number * 1000 + 500)
                server.sql(
                    f"UPDATE `{shards}_{number}`.orders SET note = 'new' WHERE n % 3 = 0;"
                    f"DELETE FROM `{shards}_{number}`.orders WHERE n % 7 = 0"
                )

        synced: dict[str, Any] = {"task": task, "until": "caught-up", "outlets": [AssetAlias("synced")]}
        sync = DmIncrementalSyncOperator(task_id="sync", **synced)
        idle = DmIncrementalSyncOperator(task_id="idle", **synced)
        check >> sources
        copy >> disturb() >> sync >> DmVerifyOperator(task_id="verify", task=task) >> idle

    lineage = Lineage()
    get_listener_manager().add_listener(lineage)
    try:
        run = run_dag(dag)
    finally:
        get_listener_manager().clear()

    assert {name: state for name, (state, _) in states(run).items()} == dict.fromkeys(
        ("precheck", "sources", "copy", "disturb", "sync", "verify", "idle"), "success"
    )
    results = {ti.task_id: ti.xcom_pull(task_ids=ti.task_id) for ti in run.get_task_instances()}
    first, second = run.get_task_instance("sources").xcom_pull(task_ids="copy", map_indexes=[0, 1])
    assert (first["rows"], second["rows"]) == (200, 200)
    assert results["sync"]["changes_applied"] >= 400
    assert results["verify"]["verified"] is True
    # Nothing was written since: no Spark app is started.
    assert results["sync"]["dm_run_id"]
    assert results["idle"]["dm_run_id"] != results["sync"]["dm_run_id"]
    runs = {path.parent.name for path in work_dir.rglob("app.log")}
    assert {results["sync"]["dm_run_id"], results["idle"]["dm_run_id"]} & runs == {results["sync"]["dm_run_id"]}
    assert results["idle"]["status"] == "finished"
    assert results["idle"]["sources"]["shard_01"]["location"] == results["sync"]["sources"]["shard_01"]["location"]
    assert mysql_target.sql(f"SELECT COUNT(*) FROM `{shards}`.orders") == mysql_target.sql(
        f"SELECT {results['verify']['rows']}"
    )
    checkpoint = CheckpointHook("dm_target", meta_schema=f"{shards}_meta").get(shards, "shard_01")
    assert checkpoint is not None
    assert str(checkpoint.location) == results["sync"]["sources"]["shard_01"]["location"]

    orders = f"mysql://127.0.0.1:{mysql_target.port}/{shards}/orders"
    read_from = [
        f"mysql://127.0.0.1:{server.port}/{shards}_{number}/orders"
        for number, server in enumerate((mysql_source, mariadb_source))
    ]
    *of_copies, of_sync = asset_events()
    assert sorted(of_copies, key=lambda event: event[2]["sources"]) == [
        ("copy", orders, {"dm_run_id": one["dm_run_id"], "sources": [source]})
        for source, one in sorted(zip(read_from, (first, second), strict=True))
    ]
    assert of_sync == ("sync", orders, {"dm_run_id": results["sync"]["dm_run_id"], "sources": read_from})

    read = [
        Dataset(f"mysql://127.0.0.1:{server.port}", f"{shards}_{number}.orders")
        for number, server in enumerate((mysql_source, mariadb_source))
    ]
    tables = OperatorLineage(read, [Dataset(f"mysql://127.0.0.1:{mysql_target.port}", f"{shards}.orders")])
    assert lineage.found.pop("copy").outputs == tables.outputs
    assert lineage.found == {"sync": tables, "verify": None, "idle": tables}
    resumed = DmIncrementalSyncOperator(task_id="sync", target_conn_id="dm_target", **synced)
    there = SimpleNamespace(get_template_context=context)
    assert resumed.get_openlineage_facets_on_complete(there) == tables  # after a deferral, in another process

    a_table_is_read_by_another_definition(task, f"{shards}_0")
    a_checkpoint_is_shown_and_forgotten(task)

    output = "".join(capfd.readouterr())
    assert CANARY not in output
    assert CANARY not in str(results)
    assert all(line in output for line in ("full migration: 200 rows in", "verify: every row is equal", "app.log"))
    noises = ("Traceback", "NativeCodeLoader", "WARN Utils", "XCom with key='dm_spark_ui_url'")
    assert not any(noise in output for noise in noises)
    files = [path for path in work_dir.rglob("*") if path.is_file()]
    assert any(path.name == "job.json" for path in files)
    # A relay log holds what the source's binlog holds: here the statement that created the account.
    ours = [path for path in files if "relay" not in path.relative_to(work_dir).parts]
    assert [path for path in ours if CANARY.encode() in path.read_bytes()] == []


def asset_events() -> list[tuple[Any, str, Any]]:
    """Return all events of assets: the task that has emitted it, the asset's URI, and what goes with it."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session

    with create_session() as session:
        events = session.query(AssetEvent).order_by(AssetEvent.id).all()
        return [(one.source_task_id, one.asset.uri, one.extra) for one in events]


def a_table_is_read_by_another_definition(task: dict[str, Any], database: str) -> None:
    def run(action: Any, **arguments: Any) -> str:
        common: dict[str, Any] = {"task": task, "target_conn_id": "dm_target", "database": database, "table": "orders"}
        made = DmTableSchemaOperator(task_id="x", **common, sources=["shard_01"], action=action, **arguments)
        return str(made.execute(context())["sources"]["shard_01"])

    assert "`note` varchar(40)" in run("get")
    longer = run("update", sql=f"CREATE TABLE {database}.orders (id BIGINT PRIMARY KEY, note VARCHAR(80), n INT)")
    assert "VARCHAR(80)" in longer
    assert "varchar(40)" in run("update", origin="source")
    assert "varchar(40)" in run("update", origin="target")
    assert run("delete") == "None"


def a_checkpoint_is_shown_and_forgotten(task: dict[str, Any]) -> None:
    def run(action: Any) -> Any:
        return DmCheckpointOperator(task_id="x", task=task, target_conn_id="dm_target", action=action).execute(
            context()
        )

    def units() -> set[str]:
        return {one["unit"] for one in run("show")["sources"].values()}

    assert units() == {"sync"}
    run("reset")
    assert units() == {"new"}


def test_a_precheck_names_what_is_wrong_and_what_to_do(
    shards: str, mysql_source: Server, work_dir: Path, run_dag: RunDag, capfd: pytest.CaptureFixture[str]
) -> None:
    mysql_source.create_user("migrate", CANARY, privileges="SELECT")
    with DAG("precheck_fails") as dag:
        DmPrecheckOperator(task_id="precheck", task=task_of(shards), target_conn_id="dm_target", retries=3)

    assert states(run_dag(dag)) == {"precheck": ("failed", 1)}
    output = "".join(capfd.readouterr())
    assert "REPLICATION" in output
    assert "PrecheckFailed" not in output, "the error is there once"
    assert CANARY not in output


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"typo": 1}, "DM-1001"),
        ({"target-database": {"host": "x", "user": "y", "password": CANARY}}, "holds a password"),
        ({"mysql-instances": [{"source-id": "not_there", **RULES}]}, "has no login"),
    ],
    ids=["unknown key", "password in the DAG", "no connection"],
)
def test_a_mistake_in_the_task_stops_before_anything_runs(
    change: dict[str, Any],
    expected: str,
    connection: Define,
    work_dir: Path,
    run_dag: RunDag,
    capfd: pytest.CaptureFixture[str],
) -> None:
    connection("dm_target", conn_type="dm_database", host="127.0.0.1", port=1, login="dm")
    with DAG("mistaken") as dag:
        DmFullMigrationOperator(task_id="copy", task=task_of("x") | change, target_conn_id="dm_target", retries=2)

    assert states(run_dag(dag)) == {"copy": ("failed", 1)}
    output = "".join(capfd.readouterr())
    assert expected in output
    assert CANARY not in output
    assert not (work_dir / "meta.db").exists()
