"""A standstill leaves the settings of its session as they were."""

import uuid

from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.target.identity import SubtaskRef
from airflow_provider_dm.engine.target.meta_tables import ensure_meta_tables
from airflow_provider_dm.engine.target.session import run_transaction, target_connection
from airflow_provider_dm.engine.target.standstill import standstill
from testbed import Server
from tests.conftest import FreshSchema

SETTINGS = "SELECT @@SESSION.innodb_lock_wait_timeout, @@SESSION.lock_wait_timeout"


def test_the_timeouts_are_the_sessions_own_again(target: Server, fresh_schema: FreshSchema) -> None:
    settings = (("innodb_lock_wait_timeout", "17"), ("lock_wait_timeout", "19"))
    endpoint = Endpoint(f"target {uuid.uuid4()}", target.host, target.port, target.user, session=settings)
    ref = SubtaskRef(fresh_schema(target), "task", "one")
    ensure_meta_tables(endpoint, ref.meta_schema)
    seen: list[tuple[object, ...]] = []

    def body(connection: Connection) -> None:
        with standstill(connection, ref, 3):
            seen.extend(query(connection, SETTINGS))

    run_transaction(endpoint, body)
    assert seen == [(3, 3)]
    assert query(target_connection(endpoint), SETTINGS) == [(17, 19)]
