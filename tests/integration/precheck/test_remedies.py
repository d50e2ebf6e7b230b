"""The remedy of each check is carried out literally, and the check passes."""

import re
from functools import partial
from typing import Any

import pytest

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig, TaskMode
from airflow_provider_dm.engine.precheck.errors import PrecheckFailed
from airflow_provider_dm.engine.precheck.result import CheckResult, PrecheckReport, State
from airflow_provider_dm.engine.precheck.run import run_precheck
from airflow_provider_dm.engine.sync.errors import DdlNotSupported
from testbed import Server, ServerSpec
from tests.conftest import FreshSchema, StartServers
from tests.integration.copy.migrations import Migration
from tests.integration.sync.conftest import SOURCE_ID, SyncKit, kit, new_kit, one_kit  # noqa: F401 (fixtures)
from tests.jobs import endpoint

from .test_precheck import check, result

STATEMENT = re.compile(r"(?:GRANT|ALTER TABLE|SET GLOBAL) .+?(?=;|$|, also in)")


def follow(remedy: str, server: Server) -> None:
    """Run the statements that a remedy has, as a user who reads it would."""
    found = STATEMENT.findall(remedy)
    assert found, remedy
    for statement in found:
        server.sql(statement.rstrip("."))


def test_grants_are_given_as_they_are_written(
    source: Server, target: Server, fresh_schema: FreshSchema, request: pytest.FixtureRequest
) -> None:
    """Also to an account that is not of every host."""
    schema = fresh_schema(source, target)
    source.sql("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE other (a INT PRIMARY KEY)", database=schema)
    target.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=schema)
    for server in (source, target):
        server.sql("CREATE USER 'it''s poor'@'127.0.0.%' IDENTIFIED BY ''")
        request.addfinalizer(partial(server.sql, "DROP USER IF EXISTS 'it''s poor'@'127.0.0.%'"))
    account = ("it's poor", "")
    source.sql(f"GRANT SELECT (a) ON `{schema}`.other TO 'it''s poor'@'127.0.0.%'")  # else it sees none of them
    source.sql(f"GRANT INSERT ON `{schema}`.t TO 'it''s poor'@'127.0.0.%'")
    steps = 0
    while not (report := check(source, target, [schema], account=account)).passed:
        for failure in report.failures:
            if "then check again" not in failure.remedy and "the precheck lists" not in failure.remedy:
                follow(failure.remedy, target if failure.where == "target" else source)
        steps += 1
        assert steps < 3, report
    assert steps


@pytest.mark.parametrize("consistency", ["auto", "lock", "flush", "snapshot", "none"])
def test_the_lock_of_a_copy_is_granted_or_chosen(
    source: Server, mysql_target: Server, schema: str, consistency: str
) -> None:
    """On MariaDB, `auto` warns only: there a copy can do without."""
    source.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=schema)
    source.create_user("dm_poor", "", privileges="SELECT, REPLICATION SLAVE, REPLICATION CLIENT")

    def checked(chosen: str) -> CheckResult:
        instance = {"source-id": "one", "block-allow-list": "ba", "mydumper": {"consistency": chosen}}
        task = {"mysql-instances": [instance]}
        return result(check(source, mysql_target, [schema], account=("dm_poor", ""), task=task), "dump_privilege")

    before = checked(consistency)
    if consistency in ("snapshot", "none"):
        assert before.state is (State.FAIL if source.flavour == "mysql" else State.OK)
        return
    lenient = source.flavour == "mariadb" and consistency == "auto"
    assert before.state is (State.WARN if lenient else State.FAIL)
    follow(before.remedy, source)
    assert checked(consistency).state is State.OK


def test_a_column_added_by_the_remedy_accepts_every_value(
    source: Server, target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(source, target)
    source.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET latin1 NOT NULL, b TIMESTAMP NULL, "
        "c DECIMAL(10,3), d ENUM('a','it''s') NOT NULL, e VARBINARY(9), f DATETIME(6) NOT NULL, g BIGINT UNSIGNED, "
        "h TEXT, i BIT(9))",
        database=schema,
    )
    target.sql("CREATE TABLE t (id INT PRIMARY KEY) CHARACTER SET ascii", database=schema)

    before = check(source, target, [schema])
    follow(result(before, "table_columns", "target", State.FAIL).remedy, target)
    after = check(source, target, [schema])

    assert not before.passed
    assert after.passed, after
    moment = "2020-01-01 00:00:00.123456"
    target.sql(
        f"INSERT INTO t VALUES (1, '\u00e9', NULL, 1.125, 'it''s', x'00ff', '{moment}', ~0, '\u00e9', b'1')",
        database=schema,
    )
    assert target.sql("SELECT a, b FROM t", database=schema) == [("\u00e9", None)]


@pytest.mark.parametrize("option", ["--binlog-format=STATEMENT", "--binlog-row-image=MINIMAL"])
def test_a_binlog_setting_is_set(option: str, mariadb_target: Server, start_own: StartServers) -> None:
    (own,) = start_own(ServerSpec("own", "mariadb", options=(option,)))
    own.sql("CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY)")

    (failure,) = check(own, mariadb_target, ["s"]).failures
    follow(failure.remedy, own)

    assert check(own, mariadb_target, ["s"]).passed


def test_the_error_of_a_failed_precheck_has_the_remedies(
    mariadb_source: Server, mariadb_target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(mariadb_source, mariadb_target)
    mariadb_source.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=schema)
    mariadb_target.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=schema)

    with pytest.raises(PrecheckFailed) as failed:
        check(mariadb_source, mariadb_target, [schema]).require_passed()

    assert f"ALTER TABLE `{schema}`.`t` ADD COLUMN `v` int(11) NULL" in failed.value.workaround()
    assert ".." not in failed.value.message()


def test_a_target_table_with_rows_of_others_is_emptied_or_overwritten(
    mysql_source: Server, mariadb_target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(mysql_source, mariadb_target)
    mysql_source.sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)", database=schema)
    mariadb_target.sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (2)", database=schema)
    into = partial(check, mysql_source, mariadb_target, [schema])
    over = {"source-id": "one", "block-allow-list": "ba", "loader-config-name": "over"}
    loaders = {"loaders": {"over": {"on-duplicate-logical": "replace"}}, "mysql-instances": [over]}

    (failure,) = into().failures

    assert failure.name == "target_rows"
    assert f"the target table {schema}.t already has rows" in failure.message
    assert into(task=loaders).passed
    mariadb_target.sql("DELETE FROM t", database=schema)
    assert into().passed


# Of a task that has begun, the tables are what it has begun with


def precheck(made: SyncKit, **changes: Any) -> PrecheckReport:
    """Check the kit's task beforehand; `changes` are keys of its file."""
    task = made.spec().task
    changed = TaskConfig.model_validate(task.model_dump(by_alias=True) | changes) if changes else task
    source = (SourceConfig.model_validate({"source-id": SOURCE_ID}), made.endpoint(made.source, SOURCE_ID).resolve())
    return run_precheck(changed, [source], made.endpoint(made.target, "target").resolve())


def messages(report: PrecheckReport, name: str, state: State) -> list[str]:
    return [one.message for one in report.results if one.name == name and one.state is state]


def test_a_table_that_stopped_the_task_is_left_out_as_the_error_advises(kit: SyncKit) -> None:  # noqa: F811
    kit.begin_with("plain", "uniq")
    kit.write("INSERT INTO plain VALUES (1, 'a')", "INSERT INTO uniq VALUES (1, 1, 'a')")
    kit.source.sql(f"CREATE DATABASE `{kit.schema}_other`")
    kit.source.sql(f"RENAME TABLE `{kit.schema}`.plain TO `{kit.schema}_other`.plain")
    kit.write("INSERT INTO uniq VALUES (2, 2, 'b')")

    assert precheck(kit).passed
    kit.stops(DdlNotSupported, match="leave the table out by block-allow-list")

    ignored = [{"db-name": kit.schema, "tbl-name": "plain"}]
    rules = {"block-allow-list": {"ours": {"do-dbs": [kit.schema], "ignore-tables": ignored}}}
    report = precheck(kit, **rules)
    assert report.passed, report
    spec = kit.spec()
    changed = TaskConfig.model_validate(spec.task.model_dump(by_alias=True) | rules)
    kit.run(spec.model_copy(update={"task": changed}))
    kit.tables = ("uniq",)
    assert kit.differences() == []


def test_a_target_that_was_altered_after_the_source_does_not_fit_any_more(one_kit: SyncKit) -> None:  # noqa: F811
    """What the sync would refuse, the precheck does: and it does not advise to have the table created anew."""
    one_kit.begin_with("plain")
    one_kit.both("ALTER TABLE plain ADD c INT NOT NULL")

    (failure,) = precheck(one_kit).failures

    assert "only in the target: c int" in failure.message
    assert "created again" not in failure.remedy
    one_kit.target.sql(f"ALTER TABLE `{one_kit.schema}`.plain DROP COLUMN c")
    assert precheck(one_kit).passed


def test_a_dropped_target_table_is_not_announced_again(one_kit: SyncKit) -> None:  # noqa: F811
    one_kit.begin_with("plain")
    one_kit.target.sql(f"DROP TABLE `{one_kit.schema}`.plain")

    (failure,) = precheck(one_kit).failures

    assert "no longer exists" in failure.message
    assert "another task" in failure.remedy


def test_a_table_created_since_then_is_not_part_of_the_task(one_kit: SyncKit) -> None:  # noqa: F811
    one_kit.begin_with("plain")
    one_kit.source.sql(f"CREATE TABLE `{one_kit.schema}`.late (id INT PRIMARY KEY)")

    report = precheck(one_kit)

    assert report.passed, report
    assert ["late" in message for message in messages(report, "table_changes", State.WARN)] == [True]
    assert messages(report, "table_creation", State.OK) == ["0 target tables will be created"]


def test_the_precheck_detects_changed_routes(one_kit: SyncKit) -> None:  # noqa: F811
    one_kit.begin_with("plain")
    route = {"schema-pattern": one_kit.schema, "target-schema": f"{one_kit.schema}_b"}
    instance = one_kit.spec().task.model_dump(by_alias=True)["mysql-instances"][0] | {"route-rules": ["r"]}

    (failure,) = precheck(one_kit, **{"routes": {"r": route}, "mysql-instances": [instance]}).failures

    assert failure.name == "table_changes"
    assert "Change the routes back" in failure.remedy


@pytest.mark.parametrize("mode", ["all", "full"])
def test_tables_that_are_altered_once_a_load_has_begun_are_followed_by_a_log_only(
    mysql_source: Server, mariadb_target: Server, schema: str, mode: str
) -> None:
    mysql_source.sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)", database=schema)
    migration = Migration.of(mariadb_target, mysql_source, schema)
    assert not migration.go(stop=lambda: True).complete
    mysql_source.sql("ALTER TABLE t ADD c INT", database=schema)
    source = (SourceConfig.model_validate({"source-id": "one"}), endpoint("one", mysql_source))

    task = migration.spec.task.model_copy(update={"task_mode": TaskMode(mode)})
    report = run_precheck(task, [source], endpoint("target", mariadb_target))

    found = report.failures if mode == "full" else report.warnings
    assert any("its columns or keys differ from those at the start" in check.message for check in found)
