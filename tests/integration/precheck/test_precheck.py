"""The precheck on real servers: nothing to complain about, and each complaint with its remedy."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.downstream.claim import claim_generation
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_tables import ensure_meta_tables
from airflow_provider_dm.engine.downstream.session import run_transaction
from airflow_provider_dm.engine.downstream.subtask import UNIT_SYNC, begin_subtask, note_location
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.precheck.errors import PrecheckFailed
from airflow_provider_dm.engine.precheck.result import CheckResult, PrecheckReport, State
from airflow_provider_dm.engine.precheck.run import run_precheck
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from testbed import Server, ServerSpec
from tests.binlogs import purge_before
from tests.conftest import FreshSchema, StartServers


def check(
    source: Server,
    target: Server,
    schemas: Sequence[str],
    *,
    account: tuple[str, str] = ("root", ""),
    port: int | None = None,
    config: dict[str, Any] | None = None,
    task: dict[str, Any] | None = None,
    more: Sequence[tuple[str, Server]] = (),
    relay_dir: Path | None = None,
) -> PrecheckReport:
    user, password = account
    made = TaskConfig.model_validate(
        {
            "name": "test",
            "block-allow-list": {"ba": {"do-dbs": list(schemas)}},
            "mysql-instances": [{"source-id": "one", "block-allow-list": "ba"}],
            **(task or {}),
        }
    )
    here = Endpoint("one", source.host, port or source.port, user, Secret(password))
    there = Endpoint("target", target.host, target.port, user, Secret(password))
    sources = [(SourceConfig.model_validate({"source-id": "one", **(config or {})}), here)]
    for name, server in more:
        endpoint = Endpoint(name, server.host, server.port, user, Secret(password))
        sources.append((SourceConfig.model_validate({"source-id": name}), endpoint))
    return run_precheck(made, sources, there, {"one": relay_dir} if relay_dir else {})


def result(report: PrecheckReport, name: str, where: str = "one", state: State | None = None) -> CheckResult:
    found = [r for r in report.results if (r.name, r.where) == (name, where) and state in (None, r.state)]
    assert found, f"no {name} on {where} in:\n{report}"
    return found[0]


def test_a_good_task_passes(source: Server, target: Server, schema: str) -> None:
    source.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", database=schema)

    report = check(source, target, [schema])

    assert report.passed, report
    assert "1 target tables will be created" in result(report, "table_creation", "target", State.OK).message
    assert report.to_json()["passed"] is True


def test_an_unreachable_server_and_a_wrong_password_are_results(mariadb_source: Server, mariadb_target: Server) -> None:
    unreachable = check(mariadb_source, mariadb_target, ["x"], port=1)
    denied = check(mariadb_source, mariadb_target, ["x"], account=("root", "canary-secret"))

    assert "cannot connect" in result(unreachable, "connection").message
    assert result(unreachable, "connection", "target").state is State.OK
    assert "denies access" in result(denied, "connection").message
    assert "canary-secret" not in str(denied)
    with pytest.raises(PrecheckFailed, match="denies access"):
        denied.require_passed()


def test_two_routes_for_a_table_and_the_source_as_its_own_target_are_refused(source: Server, schema: str) -> None:
    """Otherwise the load stops: with two routes, or since the table has rows, with the remedy to empty it."""
    source.sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)", database=schema)
    routes = {"routes": {name: {"schema-pattern": schema, "target-schema": f"{schema}_{name}"} for name in "ab"}}

    def routed(*names: str) -> PrecheckReport:
        rules = [{"source-id": "one", "block-allow-list": "ba", "route-rules": list(names)}]
        return check(source, source, [schema], task={"mysql-instances": rules, **(routes if names else {})})

    assert f"{schema}.t is matched by more than" in result(routed("a", "b"), "table_routes", state=State.FAIL).message
    assert f"one:{schema}.t" in result(routed(), "not_the_source", "target", State.FAIL).message
    assert result(routed("a"), "not_the_source", "target").state is State.OK


def test_missing_grants_are_named_with_their_grant_statement(
    source: Server, target: Server, fresh_schema: FreshSchema, request: pytest.FixtureRequest
) -> None:
    schema = fresh_schema(source, target)
    source.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=schema)
    for server in (source, target):
        server.create_user("poor", "pw", privileges="USAGE")
        request.addfinalizer(partial(server.sql, "DROP USER IF EXISTS poor@'%'"))
    source.sql(f"GRANT INSERT ON {schema}.* TO poor@'%'")

    report = check(source, target, [schema], account=("poor", "pw"))

    dump = result(report, "dump_privilege", state=State.FAIL)
    assert f"GRANT SELECT ON `{schema}`.*" in dump.remedy
    replication = result(report, "replication_privilege", state=State.FAIL)
    assert "REPLICATION SLAVE" in replication.remedy
    monitor = "BINLOG MONITOR" if source.flavour == "mariadb" else "REPLICATION CLIENT"
    gtid = result(report, "gtid", state=State.FAIL)
    assert f"the privilege {monitor} is missing" in gtid.message
    assert "replication_privilege" in gtid.remedy
    writing = result(report, "target_privilege", "target", State.FAIL)
    assert "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE" in writing.remedy

    locks = [one.remedy for one in report.failures if "momentary lock" in one.message]
    assert len(locks) == (source.flavour == "mysql")
    for remedy in (dump.remedy, replication.remedy, *locks):
        source.sql(remedy.replace("'poor'", "poor"))
    for one in report.failures:
        if one.name == "target_privilege":
            target.sql(one.remedy)
    cured = check(source, target, [schema, "elsewhere"], account=("poor", "pw"))
    assert cured.passed, cured
    assert "the account sees no table of elsewhere" in result(cured, "dump_privilege", state=State.WARN).message
    ddl = result(cured, "target_privilege", "target", State.WARN).message
    assert ("REFERENCES" in ddl) is (source.flavour == target.flavour == "mysql")  # another family gets no foreign key

    # An account that sees one table alone hides the others: a copy would leave them out without an error.
    source.sql(
        f"CREATE TABLE hidden (id INT PRIMARY KEY); REVOKE SELECT, INSERT ON {schema}.* FROM poor@'%';"
        f"GRANT SELECT ON {schema}.t TO poor@'%'",
        database=schema,
    )
    partly = check(source, target, [schema], account=("poor", "pw"))
    assert f"SELECT on all of {schema} is missing" in result(partly, "dump_privilege", state=State.FAIL).message
    named = {"block-allow-list": {"ba": {"do-tables": [{"db-name": schema, "tbl-name": "t"}]}}}
    assert check(source, target, [schema], account=("poor", "pw"), task=named).passed


def test_privileges_by_role_count(mysql_source: Server, mysql_target: Server, schema: str) -> None:
    mysql_source.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=schema)
    mysql_target.create_user("by_role", "pw")
    mysql_source.sql(
        "DROP ROLE IF EXISTS dm_role; CREATE ROLE dm_role;"
        "GRANT SELECT, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO dm_role;"
        "DROP USER IF EXISTS by_role; CREATE USER by_role IDENTIFIED BY 'pw'; GRANT dm_role TO by_role;"
        "SET DEFAULT ROLE dm_role TO by_role"
    )

    report = check(mysql_source, mysql_target, [schema], account=("by_role", "pw"))

    assert report.passed, report


def test_tables_that_cannot_be_carried(source: Server, target: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(source, target)
    source.sql(
        "CREATE TABLE good (id INT PRIMARY KEY); CREATE TABLE keyless (v INT);"
        "CREATE TABLE astral (id INT PRIMARY KEY, e ENUM('😀') CHARACTER SET utf8mb4);"
        "CREATE TABLE computed (id INT PRIMARY KEY, u CHAR(36) DEFAULT (UUID()));"
        "CREATE TABLE plain (id INT PRIMARY KEY) ENGINE=MyISAM;"
        "CREATE TABLE child (id INT PRIMARY KEY, g INT, FOREIGN KEY (g) REFERENCES good (id) ON DELETE CASCADE);"
        "CREATE TABLE other (id INT PRIMARY KEY, v INT)",
        database=schema,
    )
    target.sql("CREATE TABLE other (id INT PRIMARY KEY, w INT)", database=schema)

    report = check(source, target, [schema])

    assert "astral" in result(report, "column_types", state=State.FAIL).message
    assert "plain" in result(report, "table_engines", state=State.FAIL).message
    assert "keyless" in result(report, "table_keys", state=State.WARN).message
    assert "child" in result(report, "foreign_keys", state=State.WARN).message
    columns = [one.message for one in report.failures if one.name == "table_columns"]
    assert any("other" in message for message in columns)
    creation = [one.message for one in report.failures if one.name == "table_creation"]
    assert any("child" in message for message in creation) == (source.flavour == "mariadb")  # MySQL logs cascades
    assert any("computed" in message for message in creation)


def test_incremental_needs_the_target_tables_and_its_start(
    mariadb_source: Server, mysql_target: Server, schema: str
) -> None:
    mariadb_source.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=schema)
    instance = {
        "source-id": "one",
        "block-allow-list": "ba",
        "meta": {"binlog-name": "mysql-bin.999999", "binlog-pos": 4},
    }

    report = check(
        mariadb_source, mysql_target, [schema], task={"task-mode": "incremental", "mysql-instances": [instance]}
    )

    assert "does not exist" in result(report, "table_creation", "target", State.FAIL).message
    assert "999999" in result(report, "meta_position", state=State.FAIL).message


def test_a_relay_log_that_begins_after_its_configured_start(
    source: Server, target: Server, fresh_schema: FreshSchema, tmp_path: Path
) -> None:
    schema, config = fresh_schema(source), {"relay-binlog-name": "mysql-bin.000004"}
    assert result(check(source, target, [schema], config=config, relay_dir=tmp_path), "relay_start").state is State.OK
    file = RelayDirectory(tmp_path).folder(RelayDirectory(tmp_path).add("uuid")) / "mysql-bin.000005"
    file.write_bytes(b"")

    found = result(check(source, target, [schema], config=config, relay_dir=tmp_path), "relay_start", state=State.WARN)

    assert "mysql-bin.000005" in found.message
    assert "dmctl stop-relay" in found.remedy
    config["relay-binlog-name"] = "mysql-bin.000005"
    assert result(check(source, target, [schema], config=config, relay_dir=tmp_path), "relay_start").state is State.OK


def incremental(source: Server, target: Server, schema: str, meta: dict[str, Any] | None, **config: Any) -> CheckResult:
    """Return the findings about the location from which an incremental task reads."""
    instance = {"source-id": "one", "block-allow-list": "ba", **({"meta": meta} if meta else {})}
    task = {"task-mode": "incremental", "meta-schema": f"{schema}_meta", "mysql-instances": [instance]}
    return result(check(source, target, [schema], task=task, config=config), "meta_position")


def location_of(server: Server) -> Location:
    with connected(Endpoint("one", server.host, server.port, "root")) as connection:
        return current_location(connection)


def test_an_impossible_location_is_reported(source: Server, mysql_target: Server, fresh_schema: FreshSchema) -> None:
    schema, here = fresh_schema(source), location_of(source)

    behind = incremental(
        source, mysql_target, schema, {"binlog-name": here.file, "binlog-pos": here.position + 1_000_000}
    )
    none = incremental(source, mysql_target, schema, None)
    good = incremental(source, mysql_target, schema, {"binlog-name": here.file, "binlog-pos": here.position})

    assert (behind.state, none.state, good.state) == (State.FAIL, State.FAIL, State.OK)
    assert "that file ends at" in behind.message
    assert "neither a checkpoint nor `meta`" in none.message
    assert "binlog-name" in none.remedy


def test_a_task_with_a_checkpoint_is_asked_for_that_and_not_for_its_start(
    source: Server, target: Server, start_own: StartServers, fresh_schema: FreshSchema
) -> None:
    """The source has purged the start since; only a missing part that is still needed is reported."""
    own, other = start_own(ServerSpec("own", source.flavour), ServerSpec("other", source.flavour))
    schema = fresh_schema(own, target)
    start = location_of(own)
    own.sql("FLUSH BINARY LOGS")
    there = location_of(own)
    checkpoint(target, schema, start, there)
    purge_before(own, there.file)
    meta = {"binlog-name": start.file, "binlog-pos": start.position}

    first = incremental(own, target, schema, meta)
    without = incremental(own, target, schema, None)
    moved = incremental(other, target, schema, meta)
    followed = incremental(other, target, schema, meta, **{"enable-gtid": True})
    while location_of(other).file != there.file:
        other.sql("FLUSH BINARY LOGS")
    other.sql(f"CREATE DATABASE `{schema}`; DROP DATABASE `{schema}`")
    has_such_a_file = incremental(other, target, schema, meta)
    own.sql("FLUSH BINARY LOGS")
    purge_before(own, location_of(own).file)
    second = incremental(own, target, schema, meta)

    assert (first.state, without.state) == (State.OK, State.OK)
    assert f"continues at {there}" in first.message
    assert (moved.state, followed.state) == (State.FAIL, State.OK)
    assert (has_such_a_file.state, has_such_a_file.message) == (State.WARN, moved.message)
    assert "compares the files" in has_such_a_file.remedy
    assert second.state is State.WARN
    assert f"continues at {there}, which the source has purged" in second.message


def checkpoint(target: Server, schema: str, start: Location, here: Location) -> None:
    """Write the state of a sync that began at `start` and has applied its log up to `here`."""
    endpoint = Endpoint("target", target.host, target.port, "root")
    fence = Fence(SubtaskRef(f"{schema}_meta", "test", "one"), 1)
    ensure_meta_tables(endpoint, fence.ref.meta_schema)
    claim_generation(endpoint, fence)
    run_transaction(endpoint, lambda tx: begin_subtask(tx, fence, unit=UNIT_SYNC, start=start))
    run_transaction(endpoint, lambda tx: note_location(tx, fence, here))


def test_ignored_items_are_left_out(mariadb_source: Server, mariadb_target: Server, schema: str) -> None:
    mariadb_source.sql("CREATE TABLE t (id INT PRIMARY KEY, CHECK (id > 0))", database=schema)

    some = check(mariadb_source, mariadb_target, [schema], task={"ignore-checking-items": ["table_schema"]})
    none = check(mariadb_source, mariadb_target, [schema], task={"ignore-checking-items": ["all"]})

    assert some.passed
    assert {one.name for one in none.results} == {"configuration", "connection"}


def test_unsupported_features_are_reported_without_a_connection(mariadb_source: Server, mariadb_target: Server) -> None:
    report = check(mariadb_source, mariadb_target, ["x"], port=1, task={"shard-mode": "optimistic"})

    assert "optimistic" in result(report, "configuration", "target", State.FAIL).message
    assert len(report.results) == 1


def test_a_source_whose_binlog_is_off_or_wrong(mariadb_target: Server, start_own: StartServers) -> None:
    wrong = ("--binlog-format=STATEMENT", "--binlog-row-image=MINIMAL")
    servers = start_own(
        ServerSpec("off", "mysql", binlog=False),
        ServerSpec("documents", "mysql", ("--binlog-row-value-options=PARTIAL_JSON",)),
        ServerSpec("wrong", "mariadb", wrong),
    )
    for server in servers:
        server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY)")
    report_off, report_documents, report_wrong = (check(server, mariadb_target, ["shop"]) for server in servers)

    assert "log_bin" in result(report_off, "binlog_enable", state=State.FAIL).remedy
    assert "binlog_format = 'ROW'" in result(report_wrong, "binlog_format", state=State.FAIL).remedy
    assert "binlog_row_value_options = ''" in result(report_documents, "binlog_row_image", state=State.FAIL).remedy
    assert "binlog_row_image = 'FULL'" in result(report_wrong, "binlog_row_image", state=State.FAIL).remedy


def test_a_view_in_the_place_of_a_target_table(source: Server, target: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(source, target)
    source.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=schema)
    target.sql("CREATE VIEW t AS SELECT 1 AS id", database=schema)

    report = check(source, target, [schema])

    assert "is a view" in result(report, "table_creation", "target", State.FAIL).message


MERGED: dict[str, Any] = {
    "routes": {"merge": {"schema-pattern": "*", "table-pattern": "o_*", "target-schema": "shop", "target-table": "o"}},
    "mysql-instances": [{"source-id": "one", "block-allow-list": "ba", "route-rules": ["merge"]}],
}
PESSIMISTIC: dict[str, Any] = {**MERGED, "is-sharding": True}


def test_shards_that_do_not_begin_alike(
    mariadb_source: Server, mysql_source: Server, mysql_target: Server, schema: str
) -> None:
    """Inside a source, and between two of different flavours, which write the same in other words."""
    like = "id INT(11) NOT NULL PRIMARY KEY, v VARCHAR(20), j JSON, t TINYINT(1), UNIQUE KEY u (v)"
    for server, names in ((mariadb_source, ("o_1", "o_2", "other")), (mysql_source, ("o_3", "other"))):
        for name in names:
            server.sql(f"CREATE TABLE {name} ({like})", database=schema)
    two = {"source-id": "two", "block-allow-list": "ba", "route-rules": ["merge"]}
    both = {**PESSIMISTIC, "mysql-instances": [*MERGED["mysql-instances"], two]}
    more = [("two", mysql_source)]

    alike = check(mariadb_source, mysql_target, [schema], task=both, more=more)
    safe = {**MERGED, "mysql-instances": [{**MERGED["mysql-instances"][0], "syncer": {"safe-mode": True}}]}
    filters = {"f": {"schema-pattern": "*", "table-pattern": "o_1", "events": ["update"], "action": "Ignore"}}
    lossy = [{**safe["mysql-instances"][0], "filter-rules": ["f"]}]
    warned = check(mariadb_source, mysql_target, [schema], task={**safe, "filters": filters, "mysql-instances": lossy})
    assert (
        "the shards of 2 merged tables have the same definitions"
        in result(alike, "shard_tables", "target", State.OK).message
    )
    warnings = [one.message for one in warned.results if (one.name, one.state) == ("shard_tables", State.WARN)]
    assert len(warnings) == 3
    assert "safe-mode: true, so rows with the same key" in warnings[0]
    assert "filters ignore INSERTs or UPDATEs of source tables of shop.o, so" in warnings[1]
    assert "shard-mode is not set" in warnings[2]
    held = check(
        mariadb_source, mysql_target, [schema], task={**safe, **PESSIMISTIC, "mysql-instances": safe["mysql-instances"]}
    )
    assert "rows with the same key" in result(held, "shard_tables", "target", State.WARN).message
    of_one = {**both, "mysql-instances": [both["mysql-instances"][0] | {"syncer": {"safe-mode": True}}, two]}
    mixed = check(mariadb_source, mysql_target, [schema], task=of_one, more=more)
    assert "for some of the sources of" in result(mixed, "shard_tables", "target", State.FAIL).message

    mysql_source.sql("ALTER TABLE o_3 ADD c INT", database=schema)
    between = result(
        check(mariadb_source, mysql_target, [schema], task=both, more=more), "shard_tables", "target", State.FAIL
    )
    assert f"one:{schema}.o_1 and two:{schema}.o_3 differ in columns (only the second has c)" in between.message

    for alter, differs in (
        ("MODIFY v VARCHAR(30)", "column v (varchar(20); varchar(30))"),
        ("DROP KEY u", "unique keys ((id), (v); (id))"),
        ("MODIFY t TINYINT(1) FIRST", "the order of columns (id, v, j, t; t, id, v, j)"),
    ):
        mariadb_source.sql(f"ALTER TABLE o_2 {alter}", database=schema)
        refused = check(mariadb_source, mysql_target, [schema], task=PESSIMISTIC)
        found = result(refused, "shard_tables", "target", State.FAIL)
        assert f"one:{schema}.o_1 and one:{schema}.o_2 differ in {differs}" in found.message
        mariadb_source.sql(f"DROP TABLE o_2; CREATE TABLE o_2 ({like})", database=schema)
    mariadb_source.sql("ALTER TABLE o_2 ADD c INT", database=schema)
    for kind in ({"ignore-checking-items": ["shard_tables"]}, {"task-mode": "full"}):
        report = check(mariadb_source, mysql_target, [schema], task={**PESSIMISTIC, **kind})
        assert [one for one in report.results if one.name == "shard_tables"] == []


def test_triggers_of_target_tables(source: Server, target: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(source, target)
    source.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=schema)
    target.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT); CREATE TABLE other (id INT PRIMARY KEY, v INT);"
        "CREATE TRIGGER noisy BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 1;"
        "CREATE TRIGGER unasked BEFORE INSERT ON other FOR EACH ROW SET NEW.v = 1",
        database=schema,
    )

    report = check(source, target, [schema])
    ignoring = check(source, target, [schema], task={"ignore-checking-items": ["target_triggers"]})
    target.sql("DROP TRIGGER noisy", database=schema)
    cured = check(source, target, [schema])

    found = result(report, "target_triggers", "target", State.FAIL)
    assert f"{schema}.noisy on {schema}.t" in found.message
    assert "unasked" not in found.message
    assert "target_triggers in ignore-checking-items" in found.remedy
    assert ignoring.passed, ignoring
    assert cured.passed, cured


CASCADING = (
    "CREATE TABLE parent (id INT PRIMARY KEY);"
    "CREATE TABLE gone (id INT PRIMARY KEY, p INT, CONSTRAINT fk_gone FOREIGN KEY (p) REFERENCES parent (id)"
    " ON DELETE CASCADE);"
    "CREATE TABLE emptied (id INT PRIMARY KEY, p INT, CONSTRAINT fk_emptied FOREIGN KEY (p) REFERENCES parent (id)"
    " ON UPDATE SET NULL);"
    "CREATE TABLE guarded (id INT PRIMARY KEY, p INT COMMENT 'ON DELETE CASCADE', CONSTRAINT fk_guarded"
    " FOREIGN KEY (p) REFERENCES parent (id) ON DELETE RESTRICT ON UPDATE NO ACTION)"
)


def test_cascades_that_the_binlog_does_not_have(
    source: Server, target: Server, fresh_schema: FreshSchema, request: pytest.FixtureRequest
) -> None:
    """An account may only SELECT: MariaDB's information_schema hides constraints from it."""
    schema = fresh_schema(source, target)
    for server in (source, target):
        server.sql(CASCADING, database=schema)
        server.create_user("dm_reader", "pw", privileges="SELECT, REPLICATION SLAVE, REPLICATION CLIENT")
        request.addfinalizer(partial(server.sql, "DROP USER IF EXISTS dm_reader@'%'"))
    target.sql(f"GRANT INSERT, UPDATE, DELETE, CREATE ON {schema}.* TO dm_reader")
    account = ("dm_reader", "pw")

    report = check(source, target, [schema], account=account)
    full = check(source, target, [schema], account=account, task={"task-mode": "full"})
    ignoring = check(
        source, target, [schema], account=account, task={"ignore-checking-items": ["foreign_key_cascades"]}
    )

    found = result(report, "foreign_key_cascades")
    if source.flavour == "mariadb":
        assert found.state is State.FAIL
        assert f"{schema}.gone fk_gone (ON DELETE CASCADE)" in found.message
        assert f"{schema}.emptied fk_emptied (ON UPDATE SET NULL)" in found.message
        assert "guarded" not in found.message
    else:
        assert (found.state, found.message.split()[0]) == (State.OK, "2")
    for other in (full, ignoring):
        assert "foreign_key_cascades" not in {one.name for one in other.results}


def test_mysql_whose_engine_cascades(mariadb_target: Server, start_own: StartServers) -> None:
    (native,) = start_own(ServerSpec("native", "mysql", ("--innodb-native-foreign-keys=ON",)))
    native.sql("CREATE DATABASE shop")
    native.sql(CASCADING, database="shop")

    report = check(native, mariadb_target, ["shop"])

    assert "shop.gone fk_gone" in result(report, "foreign_key_cascades", state=State.FAIL).message


def test_tables_of_an_online_ddl_are_reported(source: Server, target: Server, schema: str) -> None:
    source.sql("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE _x_old (id INT PRIMARY KEY)", database=schema)

    report = check(source, target, [schema])

    assert report.passed
    assert f"{schema}._x_old" in result(report, "online_ddl", state=State.WARN).message

    source.sql("CREATE TABLE _t_gho LIKE t", database=schema)
    report = check(source, target, [schema])
    assert not report.passed
    assert f"{schema}._t_gho" in result(report, "online_ddl", state=State.FAIL).message
    assert check(source, target, [schema], task={"task-mode": "full"}).passed
    assert check(source, target, [schema], task={"ignore-checking-items": ["online_ddl"]}).passed
    assert check(source, target, [schema], task={"online-ddl": False}).passed
