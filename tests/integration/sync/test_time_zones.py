"""DDL of sessions whose time zone is that of the source's machine: London and New York, in winter and in summer.

The abbreviation that a server gives its machine's zone (`system_time_zone`) is the one at its start: `GMT` stands for
London's summer time as well, and `EST` for New York's.
"""

from collections.abc import Iterator

import pytest

from airflow_provider_dm.engine.meta.records import OperatorKind, SqlPattern
from airflow_provider_dm.engine.sync.errors import DdlNotSupported
from testbed import Server, ServerSpec, start_servers, stop_servers
from tests.conftest import StartServers
from tests.integration.sync.conftest import NewKit, SyncKit
from tests.integration.sync.test_by_hand import wanted

WINTER, SUMMER = 1_705_312_800, 1_721_034_000
"""Seconds since 1970: January 15 and July 15, 2024."""
ZONES = {"mysql": "Europe/London", "mariadb": "America/New_York"}


@pytest.fixture(scope="module")
def abroad(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Start a source of each flavour, on machines with a summer time."""
    specs = [ServerSpec(f"{flavour}_abroad", flavour, zone=zone) for flavour, zone in ZONES.items()]  # type: ignore[arg-type]
    servers = start_servers(specs, tmp_path_factory.mktemp("abroad"))
    yield {server.flavour: server for server in servers}
    stop_servers(servers)


@pytest.fixture(params=ZONES)
def away(request: pytest.FixtureRequest, abroad: dict[str, Server], new_kit: NewKit) -> SyncKit:
    """Make syncs from each of them to a target of its flavour."""
    kit = new_kit(SyncKit, abroad[request.param], request.getfixturevalue(f"{request.param}_target"))
    kit.begin_with("plain")
    return kit


def rows(server: Server, kit: SyncKit, table: str) -> list[tuple[object, ...]]:
    """Return the rows, with moments in UTC."""
    return server.sql(f"SET time_zone = '+00:00'; SELECT * FROM `{table}` ORDER BY 1", database=kit.schema)


def check(kit: SyncKit, *tables: str) -> None:
    for table in tables:
        assert rows(kit.target, kit, table) == rows(kit.source, kit, table)


def test_the_offset_is_that_of_the_statements_second(away: SyncKit) -> None:
    away.write("CREATE TABLE m (id int PRIMARY KEY)", "INSERT INTO m VALUES (1)")
    for season, second in (("w", WINTER), ("s", SUMMER)):
        at = f"SET timestamp = {second}"
        away.write(at, f"ALTER TABLE m ADD d_{season} datetime DEFAULT CURRENT_TIMESTAMP")
        away.write(at, f"ALTER TABLE m ADD t_{season} timestamp NULL DEFAULT CURRENT_TIMESTAMP")
    away.write("CREATE TABLE c (id int PRIMARY KEY, t timestamp(3) NULL DEFAULT '2024-07-01 12:00:00')")
    away.write("ALTER TABLE m ADD l timestamp NULL DEFAULT '2024-07-01 12:00:00', MODIFY t_s timestamp(3) NULL")
    away.write("ALTER TABLE m ADD k timestamp NULL DEFAULT '2024-01-01 12:00:00'")
    away.sync()
    away.both("INSERT INTO c (id) VALUES (1)")
    check(away, "m", "c")


def test_rows_that_are_converted_by_a_zone_with_summer_time_stop_the_sync(away: SyncKit) -> None:
    """The remedy: the target converts them by one offset, and the source writes the exact values into its log."""
    away.write("CREATE TABLE m (id int PRIMARY KEY, a datetime, b timestamp NULL)")
    away.write("INSERT INTO m VALUES (1, '2024-01-01 12:00:00', '2024-01-01 12:00:00')")
    away.write("INSERT INTO m VALUES (2, '2024-07-01 12:00:00', '2024-07-01 12:00:00')")
    away.write("ALTER TABLE m MODIFY a timestamp NULL")
    away.stops(DdlNotSupported, match=r"DM-6032.*`a`.*time zone")
    wanted(away, OperatorKind.REPLACE, SqlPattern("MODIFY a"), f"ALTER TABLE `{away.schema}`.m MODIFY a timestamp NULL")
    away.write("ALTER TABLE m ADD COLUMN exact timestamp NULL AFTER a")
    away.write("UPDATE m SET exact = a")
    away.write("ALTER TABLE m DROP COLUMN a, CHANGE exact a timestamp NULL")
    away.sync()
    check(away, "m")
    away.write("ALTER TABLE m MODIFY b datetime")
    away.stops(DdlNotSupported, match=r"DM-6032.*`b`.*time zone")
    wanted(away, OperatorKind.REPLACE, SqlPattern("MODIFY b"), f"ALTER TABLE `{away.schema}`.m MODIFY b datetime")
    away.write("UPDATE m SET b = b + INTERVAL 1 DAY")
    away.sync()
    check(away, "m")


def test_a_zone_without_effect_does_not_stop_the_sync(away: SyncKit) -> None:
    away.write("CREATE TABLE m (id int PRIMARY KEY, a datetime(3), b timestamp NULL, v varchar(9))")
    away.write("INSERT INTO m VALUES (1, '2024-07-01 12:00:00', '2024-07-01 12:00:00', 'v')")
    away.write("ALTER TABLE m MODIFY b timestamp(6) NULL, MODIFY v varchar(20), MODIFY a datetime(6), ADD n int")
    away.write("ALTER TABLE m RENAME COLUMN b TO c, ADD KEY (c)")
    away.sync()
    check(away, "m")


@pytest.fixture
def indian(start_own: StartServers, mysql_target: Server, new_kit: NewKit) -> SyncKit:
    """Make syncs from a machine whose zone has had one offset since 1945."""
    (server,) = start_own(ServerSpec("indian", "mysql", zone="Asia/Kolkata"))
    return new_kit(SyncKit, server, mysql_target)


def test_a_source_whose_zone_has_one_offset_converts_rows(indian: SyncKit) -> None:
    """After them, sessions with a named zone, of which the servers have different rules."""
    define_zones(indian.source, Near=(3600, 7200), Moved=(3600, 7200), Unknown=(3600, 7200))
    define_zones(indian.target, Near=(3600, 7200), Moved=(-3600, 0))
    indian.begin_with("plain")
    indian.write("CREATE TABLE m (id int PRIMARY KEY, a datetime, b timestamp NULL)")
    indian.write("INSERT INTO m VALUES (1, '2024-07-01 12:00:00', '2024-01-01 12:00:00')")
    indian.write("ALTER TABLE m MODIFY a timestamp NULL, ADD c int")
    indian.write("SET time_zone = '-03:00'", "ALTER TABLE m MODIFY b datetime")
    indian.sync()
    check(indian, "m")

    for zone in ("Moved", "Unknown"):
        indian.write(f"SET time_zone = '{zone}'", f"ALTER TABLE m ADD d_{zone} datetime DEFAULT now()")
        indian.write(f"SET time_zone = '{zone}'", f"ALTER TABLE m ADD t_{zone} timestamp DEFAULT '2024-07-01 12:00:00'")
    indian.write("SET time_zone = 'Near'", "ALTER TABLE m MODIFY a datetime")
    by_hand = f"ALTER TABLE `{indian.schema}`.m ADD r timestamp DEFAULT '2019-07-01 12:00:00'"
    wanted(indian, OperatorKind.REPLACE, SqlPattern("ADD r"), by_hand)
    indian.write("SET time_zone = 'Near'", by_hand)
    indian.sync()
    check(indian, "m")
    indian.write("SET time_zone = 'Moved'", "ALTER TABLE m MODIFY t_Moved datetime")
    indian.stops(DdlNotSupported, match=r"DM-6032.*`t_Moved`.*other rules")


def define_zones(server: Server, **zones: tuple[int, int]) -> None:
    """Give a server zones with these offsets, in seconds: one until the year 2020, and one since."""
    for name, offsets in zones.items():
        server.sql(
            "INSERT INTO time_zone (Use_leap_seconds) VALUES ('N'); SET @id = LAST_INSERT_ID(); "
            f"INSERT INTO time_zone_name VALUES ('{name}', @id); "
            "INSERT INTO time_zone_transition_type "
            f"VALUES (@id, 0, {offsets[0]}, 0, 'A'), (@id, 1, {offsets[1]}, 1, 'B'); "
            "INSERT INTO time_zone_transition VALUES (@id, 0, 0), (@id, 1577836800, 1)",
            database="mysql",
        )
