"""Two connections that may lead to the same server."""

from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.precheck.facts import ServerFacts
from testbed import Server

TASK = TaskConfig.model_validate({"name": "test", "mysql-instances": [{"source-id": "one"}]})


def is_the_same(one: Server, other: Server) -> bool:
    ends = [Endpoint(server.name, server.host, server.port, "root") for server in (one, other)]
    with connected(ends[0]) as mine, connected(ends[1]) as theirs:
        return ServerFacts(ends[0], mine, TASK).is_server_of(ServerFacts(ends[1], theirs, TASK))


def test_servers_that_report_the_same_identity_are_two(mariadb_source: Server, mariadb_target: Server) -> None:
    """Many MariaDB servers are 0-1."""
    ((own,),), ((other,),) = (one.sql("SELECT @@global.server_id") for one in (mariadb_source, mariadb_target))
    mariadb_target.sql(f"SET GLOBAL server_id = {own}")
    try:
        assert is_the_same(mariadb_source, mariadb_source)
        assert not is_the_same(mariadb_source, mariadb_target)
    finally:
        mariadb_target.sql(f"SET GLOBAL server_id = {other}")
