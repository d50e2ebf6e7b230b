"""DDL that converts rows, between servers that compute some conversions in different ways, and between equal ones."""

import pytest

from airflow_provider_dm.engine.meta.records import OperatorKind, SqlPattern
from airflow_provider_dm.engine.sync.errors import DdlNotSupported
from tests.integration.sync.conftest import NewKit, SyncKit
from tests.integration.sync.test_by_hand import wanted
from tests.integration.sync.year import definitions

UNLIKE = {"mysql": "mariadb", "mariadb": "mysql"}
CONVERSIONS = (
    ("datetime(6)", "date", "'2024-02-29 23:59:59.999999'"),
    ("datetime(3)", "bigint", "'2024-02-29 12:34:56.5'"),
    ("varchar(20)", "int", "'12abc'"),
    ("varbinary(20)", "date", "'2024-02-29x'"),
    ("float", "decimal(20,3)", "0.1"),
    ("varchar(20) CHARACTER SET utf8mb4", "varchar(20) CHARACTER SET latin1", "'ÿĀ'"),
)
"""(type before, type after, a value)"""


@pytest.fixture(params=UNLIKE)
def unlike(request: pytest.FixtureRequest, new_kit: NewKit) -> SyncKit:
    """Make syncs between unlike servers, in both directions."""
    source = request.getfixturevalue(f"{request.param}_source")
    target = request.getfixturevalue(f"{UNLIKE[request.param]}_target")
    kit = new_kit(SyncKit, source, target)
    kit.begin_with("plain")
    return kit


def _create(kit: SyncKit) -> None:
    columns = ", ".join(f"c{number} {old} NULL" for number, (old, *_) in enumerate(CONVERSIONS))
    kit.write(f"CREATE TABLE m (id int PRIMARY KEY, {columns})")
    kit.write(f"INSERT INTO m VALUES (1, {', '.join(value for *_, value in CONVERSIONS)})")


def check(kit: SyncKit) -> None:
    ours, theirs = (
        server.sql("SELECT * FROM m ORDER BY 1", database=kit.schema) for server in (kit.target, kit.source)
    )
    assert ours == theirs != []


def test_a_conversion_that_servers_compute_differently_stops_the_sync(unlike: SyncKit) -> None:
    """Each of them, in a session that is not strict; then the remedy that the error names."""
    _create(unlike)
    for number, (_, new, _) in enumerate(CONVERSIONS):
        name, alter = f"c{number}", f"ALTER TABLE {{}}m MODIFY c{number} {new} NULL"
        unlike.write("SET sql_mode = ''", alter.format(""))
        unlike.stops(DdlNotSupported, match=rf"DM-6032.*`{name}`.*may compute different values.*binlog replace")
        if not number:  # a decision that does not help names the one that does
            wanted(unlike, OperatorKind.SKIP, SqlPattern(f"MODIFY {name} "))
            unlike.stops(DdlNotSupported, match=r"it is skipped.* does not fit .*different: .*binlog replace")
        wanted(unlike, OperatorKind.REPLACE, SqlPattern(f"MODIFY {name} "), alter.format(f"`{unlike.schema}`."))
        unlike.write(f"ALTER TABLE m ADD COLUMN exact {new} NULL AFTER {name}")
        unlike.write(f"UPDATE m SET exact = {name}")
        unlike.write(f"ALTER TABLE m DROP COLUMN {name}, CHANGE exact {name} {new} NULL")
        unlike.sync()
        check(unlike)


def test_a_conversion_by_an_online_ddl_tool_stops_the_sync(unlike: SyncKit) -> None:
    unlike.write("CREATE TABLE m (id int PRIMARY KEY, c datetime(6))")
    unlike.write("INSERT INTO m VALUES (1, '2024-02-29 23:59:59.999999')")
    unlike.write("CREATE TABLE _m_gho LIKE m")
    unlike.write("ALTER TABLE _m_gho MODIFY c date")
    unlike.write("INSERT INTO _m_gho SELECT * FROM m")
    unlike.write("RENAME TABLE m TO _m_del, _m_gho TO m")
    unlike.write("DROP TABLE _m_del", "INSERT INTO m VALUES (2, '2024-02-29')")
    unlike.stops(DdlNotSupported, match=r"DM-6032.*`c` becomes date.*binlog replace")
    wanted(unlike, OperatorKind.REPLACE, SqlPattern("RENAME"), f"ALTER TABLE `{unlike.schema}`.m MODIFY c date")
    unlike.write("ALTER TABLE m ADD COLUMN exact date", "UPDATE m SET exact = c")
    unlike.write("ALTER TABLE m DROP COLUMN c, CHANGE exact c date")
    unlike.sync()
    check(unlike)


def test_a_column_that_servers_fill_differently_stops_the_sync(unlike: SyncKit) -> None:
    unlike.write("CREATE TABLE m (id int PRIMARY KEY)", "INSERT INTO m VALUES (1)")
    unlike.write("ALTER TABLE m ADD d date DEFAULT '2024-01-01 23:59:59.9'")
    unlike.stops(DdlNotSupported, match=r"DM-6032.*`d` is not a plain date")
    wanted(unlike, OperatorKind.REPLACE, SqlPattern("ADD d"), f"ALTER TABLE `{unlike.schema}`.m ADD d date")
    unlike.write("UPDATE m SET d = '2024-01-02'", "ALTER TABLE m ADD e enum('a','1','2') DEFAULT 2")
    unlike.stops(DdlNotSupported, match=r"DM-6032.*the default 2 of `e` is a number")


def test_conversions_that_are_equal_on_every_server_are_followed(unlike: SyncKit) -> None:
    unlike.write("CREATE TABLE m (id int PRIMARY KEY, v varchar(20) CHARACTER SET latin1, n int, t timestamp(3) NULL)")
    unlike.write("INSERT INTO m VALUES (1, 'é€', 7, '2024-07-01 12:00:00.5')")
    unlike.write("ALTER TABLE m CONVERT TO CHARACTER SET utf8mb4, MODIFY n bigint NOT NULL")
    unlike.write("ALTER TABLE m MODIFY v text, MODIFY t datetime(6), ADD PRIMARY KEY (n), DROP PRIMARY KEY")
    unlike.write("ALTER TABLE m DROP COLUMN v, ADD COLUMN v date DEFAULT '2024-01-01'")
    unlike.sync()
    check(unlike)


@pytest.mark.parametrize("flavour", UNLIKE)
def test_servers_of_one_release_convert_under_the_sources_sql_mode(
    flavour: str, request: pytest.FixtureRequest, new_kit: NewKit
) -> None:
    source, target = (request.getfixturevalue(f"{flavour}_{role}") for role in ("source", "target"))
    kit = new_kit(SyncKit, source, target)
    kit.begin_with("plain")
    _create(kit)
    changes = ", ".join(f"MODIFY c{number} {new} NULL" for number, (_, new, _) in enumerate(CONVERSIONS))
    kit.write("SET sql_mode = ''", f"ALTER TABLE m {changes}")
    kit.sync()
    check(kit)


def test_json_of_mariadb_keeps_its_text_unless_the_target_has_documents(unlike: SyncKit) -> None:
    unlike.write("CREATE TABLE m (id int PRIMARY KEY, c json)")
    unlike.write("""INSERT INTO m VALUES (1, '{"b": 1,  "a": [1.50]}')""")
    unlike.sync()
    if unlike.source.flavour == "mariadb":
        unlike.write("ALTER TABLE m MODIFY c json NOT NULL", "INSERT INTO m VALUES (2, '[ 2 ]')")
        unlike.sync()
        check(unlike)
        unlike.target.sql("ALTER TABLE m MODIFY c json NOT NULL", database=unlike.schema)
    unlike.write("ALTER TABLE m MODIFY c json COMMENT 'changed'")
    unlike.stops(DdlNotSupported, match=r"DM-6032.*`c`, whose rows become JSON")


def test_a_time_on_update_is_lost_with_its_default_where_the_source_loses_it(unlike: SyncKit) -> None:
    """MariaDB loses it; `c` has another default. The definition of `n` is the one that the sync has of `m`."""
    moment = "CURRENT_TIMESTAMP"
    unlike.write(
        f"CREATE TABLE m (id int PRIMARY KEY, a timestamp(6) NULL DEFAULT {moment}(6) ON UPDATE {moment}(6), "
        f"b datetime NOT NULL DEFAULT {moment} ON UPDATE {moment}, c datetime DEFAULT '2024-01-01' ON UPDATE {moment})"
    )
    unlike.write("ALTER TABLE m ALTER a DROP DEFAULT, ALTER b SET DEFAULT '2024-01-01', ALTER c DROP DEFAULT")
    unlike.write("CREATE TABLE n LIKE m")
    unlike.sync()
    found = definitions.differences(unlike.source, unlike.target, unlike.schema, as_shown=False)
    assert [one for one in found if one.startswith(("m", "n"))] == []
