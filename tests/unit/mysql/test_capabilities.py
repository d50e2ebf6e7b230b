"""The differences between servers are one complete table; a release changes only the listed facts."""

from dataclasses import fields, replace

import pytest

from airflow_provider_dm.engine.mysql.capabilities import _BEFORE, CAPABILITIES, Capabilities, capabilities_of
from airflow_provider_dm.engine.mysql.connection import ServerInfo
from airflow_provider_dm.engine.mysql.endpoint import Flavour

MYSQL, MARIADB, TIDB = CAPABILITIES[Flavour.MYSQL], CAPABILITIES[Flavour.MARIADB], CAPABILITIES[Flavour.TIDB]


def test_every_family_has_a_row_of_its_own() -> None:
    assert {flavour: row.flavour for flavour, row in CAPABILITIES.items()} == {one: one for one in Flavour}
    assert [row.title.lower() for row in CAPABILITIES.values()] == [flavour.value for flavour in CAPABILITIES]


def test_every_capability_distinguishes_two_servers() -> None:
    servers = [*CAPABILITIES.values(), *(capabilities_of(flavour, CAPABILITIES[flavour].oldest) for flavour in Flavour)]
    alike = [fact.name for fact in fields(Capabilities) if len({getattr(one, fact.name) for one in servers}) == 1]
    assert alike == []


def test_older_releases_differ_from_the_newest_capabilities() -> None:
    for flavour, release, older in _BEFORE:
        newest = CAPABILITIES[flavour]
        assert replace(newest, **older) != newest
        assert release > newest.oldest


@pytest.mark.parametrize(
    ("version", "status", "row_alias"),
    [
        ("5.7.44-log", "SHOW MASTER STATUS", False),
        ("8.0.18", "SHOW MASTER STATUS", False),
        ("8.0.36", "SHOW MASTER STATUS", True),
        ("8.2.0", "SHOW BINARY LOG STATUS", True),
        ("9.7.4", "SHOW BINARY LOG STATUS", True),
    ],
)
def test_features_of_newer_mysql_releases(version: str, status: str, row_alias: bool) -> None:
    found = ServerInfo(Flavour.MYSQL, version, 1, "").capabilities
    assert (found.binlog_status, found.row_alias) == (status, row_alias)


@pytest.mark.parametrize(("version", "tx"), [("10.11.19-MariaDB-log", True), ("11.8.2-MariaDB", False)])
def test_settings_that_mariadb_renamed(version: str, tx: bool) -> None:
    found = ServerInfo(Flavour.MARIADB, version, 1, "").capabilities
    assert (found.isolation_is_tx, found.binlog_status) == (tx, "SHOW MASTER STATUS")


def test_only_mariadb_locates_snapshots_and_gtid_positions() -> None:
    assert [row.title for row in CAPABILITIES.values() if row.snapshots_are_located or row.gtids_at] == ["MariaDB"]
    assert (MYSQL.executed_gtids, MARIADB.executed_gtids) == ("@@global.gtid_executed", "@@global.gtid_binlog_pos")


def test_tidb_writes_no_binlog_and_accepts_rows_like_an_old_mysql() -> None:
    assert not TIDB.writes_binlog
    assert (TIDB.json_keeps_decimals, TIDB.row_alias) == (False, False)
    assert capabilities_of(Flavour.TIDB, (8, 0, 11)) is TIDB  # the version of MySQL that it says it is


def test_tidb_is_altered_step_by_step_and_only_mariadb_if_something_exists() -> None:
    assert [row.title for row in CAPABILITIES.values() if row.alters_one_change_at_a_time] == ["TiDB"]
    assert [row.title for row in CAPABILITIES.values() if row.conditional_alters] == ["MariaDB"]
