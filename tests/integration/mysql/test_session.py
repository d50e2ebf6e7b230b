"""The pinned session: whatever a server's globals are, and whatever its init_connect does, ours is the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.connection import connected, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.mysql.errors import SessionRefused
from airflow_provider_dm.engine.mysql.pinned import PINNED, READING, WRITING, Setting
from airflow_provider_dm.engine.mysql.pinning import set_all
from testbed import Server, ServerSpec
from testbed.tidb import tidb_config
from tests.conftest import StartServers
from tests.integration.mysql.left_alone import LEFT_ALONE

CANNOT_BE_SET = frozenset({1229, 1238})
UNKNOWN = 1193


def endpoint(server: Server, user: str = "", **session: str) -> Endpoint:
    password = Secret("pw" if user else "")
    return Endpoint("one", server.host, server.port, user or server.user, password, session=tuple(session.items()))


def variables(at: Endpoint, isolation: str = READING) -> dict[str, str]:
    with connected(at, isolation=isolation) as connection:
        return {name.decode(): value.decode() for name, value in query(connection, "SHOW SESSION VARIABLES")}


def of_sessions(server: Server) -> set[str]:
    """The variables that a session can have for itself."""
    found = set()
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW SESSION VARIABLES")
        for name, _ in cursor.fetchall():
            try:
                cursor.execute(f"SET SESSION {name} = @@SESSION.{name}")
            except pymysql.err.MySQLError as error:
                if error.args[0] in (UNKNOWN, *CANNOT_BE_SET):
                    continue
            found.add(name)
    return found


@pytest.mark.parametrize("server", ["mysql_source", "mariadb_source", "mariadb11_source"])
def test_every_session_variable_has_a_decision(server: str, request: pytest.FixtureRequest) -> None:
    decided = {pin.name for pin in PINNED} | {name for names in LEFT_ALONE.values() for name in names.split()}
    assert of_sessions(request.getfixturevalue(server)) - decided == set()


def test_a_variable_is_pinned_or_left_alone_and_for_one_reason() -> None:
    names = [pin.name for pin in PINNED] + [name for names in LEFT_ALONE.values() for name in names.split()]
    assert sorted(names) == sorted(set(names))


PINNED_NAMES = frozenset(pin.name for pin in PINNED) | {"tx_isolation", "tx_read_only"}


@pytest.mark.parametrize(("flavour", "series"), [("mysql", ""), ("mariadb", ""), ("mariadb", "11")])
def test_hostile_globals_do_not_reach_us(flavour: str, series: str, start_own: StartServers) -> None:
    """Not one variable that decides about rows differs from that of a session on a calm server of the same kind."""
    hostile, calm = start_own(
        ServerSpec("hostile", flavour, series=series, hostile=True),  # type: ignore[arg-type]
        ServerSpec("calm", flavour, series=series, hostile=False),  # type: ignore[arg-type]
    )
    for server in (hostile, calm):
        server.create_user("plain", "pw", privileges="SELECT")
    for user in ("", "plain"):
        ours, theirs = (variables(endpoint(server, user), WRITING) for server in (hostile, calm))
        different = {
            name: (ours[name], theirs[name]) for name in PINNED_NAMES & ours.keys() if ours[name] != theirs[name]
        }
        if flavour == "mysql":  # lets only administrators say how many warnings are kept: what is not kept is counted
            different.pop("max_error_count", None)
        assert different == {}


HOSTILE_TIDB = {
    "tidb_txn_mode": "optimistic",
    "tidb_constraint_check_in_place": "OFF",
    "tidb_enable_clustered_index": "OFF",
    "tidb_idle_transaction_timeout": 2,
    "tidb_low_resolution_tso": "ON",
    "tidb_enable_external_ts_read": "ON",
    "tiflash_fastscan": "ON",
    "tidb_skip_utf8_check": "ON",
    "tidb_skip_ascii_check": "ON",
    "tidb_opt_range_max_size": 1,
    "tidb_enable_cascades_planner": "ON",
    "tidb_rc_write_check_ts": "ON",
    "tidb_skip_missing_partition_stats": "OFF",
    "tidb_stats_load_sync_wait": 1,
    "tidb_enable_unsafe_substitute": "ON",
    "sql_mode": "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE",
    "sql_select_limit": 3,
    "time_zone": "+05:30",
    "foreign_key_checks": "ON",
    "max_execution_time": 2000,
    "group_concat_max_len": 4,
    "default_collation_for_utf8mb4": "utf8mb4_general_ci",
}


@contextmanager
def hostile_tidb(server: Server) -> Iterator[None]:
    """Unusual global settings of TiDB, for new sessions."""
    before = {name: server.sql(f"SELECT @@GLOBAL.{name}")[0][0] for name in HOSTILE_TIDB}
    for name, value in HOSTILE_TIDB.items():
        server.sql(f"SET GLOBAL {name} = %s", [value])
    try:
        yield
    finally:
        for name, value in before.items():
            server.sql(f"SET GLOBAL {name} = %s", [value])


@pytest.mark.parametrize("version", ["8.0.36", "8.0.36-TiDB-v8.5.0"])
def test_a_tidb_with_the_version_of_mysql_is_refused(
    version: str, tidb_target: Server, start_own: StartServers, tmp_path: Path
) -> None:
    settings = tmp_path / "renamed.toml"
    settings.write_text(f'server-version = "{version}"\n{tidb_config(tmp_path)}')
    (server,) = start_own(ServerSpec("renamed", "tidb", (f"--config={settings}",)))
    if version == "8.0.36":
        with pytest.raises(InvalidInput, match=r"is TiDB, but its version is 8\.0\.36.*8\.0\.11-TiDB-v8\.5\.0"):
            variables(endpoint(server))
    else:
        assert variables(endpoint(server))["tidb_txn_mode"] == "pessimistic"


def test_hostile_globals_of_tidb_do_not_reach_us(tidb_target: Server) -> None:
    calm = variables(endpoint(tidb_target))
    with hostile_tidb(tidb_target):
        ours = variables(endpoint(tidb_target))
    assert {name: ours[name] for name in PINNED_NAMES & calm.keys() if ours[name] != calm[name]} == {}
    assert ours["tidb_txn_mode"] == "pessimistic"


def test_a_session_needs_at_most_three_statements(source: Server) -> None:
    variables(endpoint(source))  # what this kind of server lacks is known from then on
    with connected(endpoint(source)) as connection:
        ((_, asked),) = query(connection, "SHOW SESSION STATUS LIKE 'Questions'")
    assert 3 <= int(asked) <= 3 + source.hostile  # and this one; autocommit may have to be turned on first


@pytest.mark.hostile
def test_no_transaction_is_left_open(source: Server, schema: str) -> None:
    """Servers without autocommit, and with COMMITs that begin another transaction: what is read is what there is."""
    source.sql(f"CREATE TABLE {schema}.t (id INT PRIMARY KEY)")
    with connected(endpoint(source)) as connection:
        for number in range(3):
            assert len(query(connection, f"SELECT * FROM {schema}.t")) == number
            source.sql(f"INSERT INTO {schema}.t VALUES ({number})")


@contextmanager
def init_connect(server: Server, statements: str) -> Iterator[None]:
    server.sql("SET GLOBAL init_connect = %s", [statements])
    try:
        yield
    finally:
        server.sql("SET GLOBAL init_connect = ''")


@pytest.mark.parametrize(
    "statement",
    [
        "SET SESSION sql_select_limit = 1, time_zone = '+05:30'; SET @a = 1",
        "SET SESSION TRANSACTION READ WRITE; CREATE TEMPORARY TABLE {t} (id INT PRIMARY KEY)",
        "SET SESSION autocommit = 0; START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "BEGIN; SELECT COUNT(*) FROM {t}",
        "LOCK TABLES {t} READ",
        "SET timestamp = 1, insert_id = 77",
        "SET NAMES latin1",
    ],
)
def test_the_effects_of_init_connect_are_undone(source: Server, schema: str, statement: str) -> None:
    source.sql(
        f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, s VARCHAR(9)); CREATE TABLE {schema}.u (id INT);"
        f"INSERT INTO {schema}.t VALUES (1, '€'), (2, '')"
    )
    source.create_user("plain", "pw", privileges="SELECT, INSERT, CREATE TEMPORARY TABLES, LOCK TABLES")
    usual = variables(endpoint(source, "plain"))
    with init_connect(source, statement.format(t=f"{schema}.t")), connected(endpoint(source, "plain")) as connection:
        now = {name.decode(): value.decode() for name, value in query(connection, "SHOW SESSION VARIABLES")}
        source.sql(f"INSERT INTO {schema}.t VALUES (3, '')")  # neither locked nor unseen
        rows = query(connection, f"SELECT id, s FROM {schema}.t ORDER BY id")
        ((clock,),) = query(connection, "SELECT UNIX_TIMESTAMP()")
        query(connection, f"INSERT INTO {schema}.u VALUES (1)")
    assert rows == [(1, "€".encode()), (2, b""), (3, b"")]
    assert int(clock) > 1
    assert source.sql(f"SELECT COUNT(*) FROM {schema}.u") == [(1,)]
    assert {name for name in PINNED_NAMES & now.keys() if now[name] != usual[name]} == set()


def test_an_account_that_init_connect_shuts_out_gets_an_error(source: Server) -> None:
    source.create_user("plain", "pw", privileges="SELECT")
    with init_connect(source, "nonsense"), pytest.raises(Exception, match="one \\(plain@"):
        variables(endpoint(source, "plain"))


# What a user sets


def test_a_user_may_add(source: Server) -> None:
    wanted = {
        "sql_mode": "ANSI_QUOTES,NO_ZERO_IN_DATE,NO_ZERO_DATE",  # as in DM's own sample
        "time_zone": "Asia/Shanghai",  # as DM exports it: nothing that is stored depends on it
        "wait_timeout": "1000",
        "div_precision_increment": "10",
        "lc_time_names": "fr_FR",
        "long_query_time": "0.5",
        "sort_buffer_size": "400000",
    }
    found = variables(endpoint(source, **wanted))
    added = {"ANSI_QUOTES", "NO_ZERO_IN_DATE", "NO_ZERO_DATE"}
    needed = {"STRICT_ALL_TABLES", "ALLOW_INVALID_DATES", "NO_AUTO_VALUE_ON_ZERO", "NO_ENGINE_SUBSTITUTION"}
    assert {*found["sql_mode"].split(",")} == added | needed
    assert found["time_zone"] == "+00:00"
    kept = wanted.keys() - {"sql_mode", "time_zone"}
    assert {name: float(found[name]) for name in kept - {"lc_time_names"}} == {
        name: float(wanted[name]) for name in kept - {"lc_time_names"}
    }
    assert found["lc_time_names"] == "fr_FR"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("sql_mode", "NO_BACKSLASH_ESCAPES", "backslashes"),
        ("sql_mode", "ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH", "PAD_CHAR_TO_FULL_LENGTH: CHAR values"),
        ("sql_mode", "EMPTY_STRING_IS_NULL", "the empty string would become NULL"),
        ("sql_mode", "SOMETHING_NEW", "the effect of this mode on rows is unknown"),
        ("character_set_results", "latin1", "converted"),
        ("sql_select_limit", "10", "cut off"),
        ("foreign_key_checks", "1", "not parents first"),
        ("UNIQUE_CHECKS", "0", "accept a duplicate"),
        ("tx_isolation", "SERIALIZABLE", "uncommitted"),
        ("autocommit", "0", "not be committed"),
        ("a; DROP TABLE t", "0", "no session variable has such a name"),
    ],
)
def test_forbidden_session_settings_are_refused(source: Server, name: str, value: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        variables(endpoint(source, **{name: value}))
    assert name in str(caught.value)
    assert "one (root@" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no_such_variable", "1"),
        ("lc_time_names", "xx_YY"),
        ("max_allowed_packet", "9"),
        ("sort_buffer_size", "lots"),
        ("max_connections", "7"),
        ("version", "1"),
    ],
)
def test_a_session_variable_that_the_server_does_not_set_is_reported(source: Server, name: str, value: str) -> None:
    with pytest.raises(SessionRefused, match=f"session variable {name} to '{value}'"):
        variables(endpoint(source, **{name: value}))


# What an account may not set


def test_a_variable_that_the_account_may_not_set_must_have_its_value(mysql_source: Server) -> None:
    mysql_source.create_user("plain", "pw", privileges="SELECT")
    wanted = [Setting("sql_select_limit", 5), Setting("sql_require_primary_key", 0), Setting("no_such_variable", 1)]
    at = endpoint(mysql_source, "plain")
    ((was,),) = mysql_source.sql("SELECT @@GLOBAL.sql_require_primary_key")
    try:
        mysql_source.sql("SET GLOBAL sql_require_primary_key = 0")
        for _ in range(2):  # the second time it is known
            with connected(at) as connection:
                set_all(connection, wanted, server=str(at))
                assert query(connection, "SELECT @@sql_select_limit") == [(5,)]
        mysql_source.sql("SET GLOBAL sql_require_primary_key = 1")
        with connected(at) as connection, pytest.raises(SessionRefused, match="sql_require_primary_key"):
            set_all(connection, wanted, server=str(at))
    finally:
        mysql_source.sql(f"SET GLOBAL sql_require_primary_key = {was}")
