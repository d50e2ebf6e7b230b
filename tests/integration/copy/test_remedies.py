"""The remedies of a load's start errors, carried out literally."""

import pytest

from airflow_provider_dm.engine.copy import begin_load
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.binlog_status import location_if_shown
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.location import Location
from testbed import Server
from tests.before import before
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import Migration, assert_same
from tests.jobs import endpoint


def test_a_load_starts_after_the_remedy_no_ddl_and_one_server(
    mysql_source: Server,
    mariadb_source: Server,
    mariadb_target: Server,
    fresh_schema: FreshSchema,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No DDL any more, and an address at which one server answers."""
    schema = fresh_schema(mysql_source)
    mysql_source.sql("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)", database=schema)
    migration = Migration.of(mariadb_target, mysql_source, schema)

    def of_another(_connection: Connection) -> Location:
        with connected(endpoint("another", mariadb_source)) as connection:
            return location_if_shown(connection)

    with monkeypatch.context() as patch:
        patch.setattr(begin_load, "SURVEY_ATTEMPTS", 1)
        alter = "ALTER TABLE a ADD COLUMN w int"
        before(patch, begin_load, "location_if_shown", lambda _: mysql_source.sql(alter, database=schema))
        migration.stops(DmError, match=r"\.a was created or altered at every attempt.*pause DDL")
        patch.setattr(begin_load, "location_if_shown", of_another)
        migration.stops(DmError, match="an address at which only one server answers")
    migration.finish()
    assert_same(mysql_source, mariadb_target, schema, "a")
