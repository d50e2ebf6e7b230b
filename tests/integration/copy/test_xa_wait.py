"""A copy that begins while XA transactions are prepared waits for them, or does not begin."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.copy.begin_load import prepared_now, wait_for_prepared
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.reading.errors import NotBegunYet
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.binlog.walking import end_xa
from tests.jobs import endpoint

XID = "X'c327',X'00ff',9"


@pytest.fixture
def prepared(source: Server, fresh_schema: FreshSchema) -> Iterator[Server]:
    """A server with one prepared transaction, whose name is no text."""
    schema = fresh_schema(source)
    source.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=schema)
    with source.connect(database=schema) as connection, connection.cursor() as cursor:
        for statement in (f"XA START {XID}", "INSERT INTO t VALUES (1)", f"XA END {XID}", f"XA PREPARE {XID}"):
            cursor.execute(statement)
    yield source
    with connected(endpoint("s1", source)) as left:
        still = XID in prepared_now(left)
    if still:
        end_xa(source, XID, "ROLLBACK")


def test_a_session_that_remains_is_named_with_the_remedy(prepared: Server) -> None:
    with pytest.raises(NotBegunYet) as raised:
        wait_for_prepared(endpoint("s1", prepared), seconds=0)
    assert f"stay prepared: {XID}." in str(raised.value)
    end_xa(prepared, XID)
    wait_for_prepared(endpoint("s1", prepared), seconds=0)


def test_the_copy_waits_for_the_end_of_a_prepared_transaction(prepared: Server) -> None:
    looked = threading.Event()

    def sleep(_seconds: float) -> None:
        if not looked.is_set():
            end_xa(prepared, XID, "ROLLBACK")
        looked.set()

    wait_for_prepared(endpoint("s1", prepared), sleep=sleep)
    assert looked.is_set()


def test_an_account_without_xa_recover_admin_does_not_stop_the_copy(mysql_source: Server) -> None:
    mysql_source.sql("CREATE USER IF NOT EXISTS 'nobody_xa'@'%' IDENTIFIED BY ''")
    try:
        with connected(replace(endpoint("s1", mysql_source), user="nobody_xa")) as connection:
            assert prepared_now(connection) == frozenset()
    finally:
        mysql_source.sql("DROP USER 'nobody_xa'@'%'")
