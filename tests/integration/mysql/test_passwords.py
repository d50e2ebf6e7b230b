"""Passwords are UTF-8, as every server and client has them; no error holds one."""

import uuid

import pytest

from airflow_provider_dm.engine.meta.database import Database
from airflow_provider_dm.engine.meta.url import parse_url
from airflow_provider_dm.engine.mysql.connection import connected, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.mysql.errors import AccessDenied
from testbed import Server
from tests.conftest import FreshSchema


@pytest.mark.parametrize("password", ["päss", "p€ss", "пароль"])
def test_passwords_need_not_be_ascii(source: Server, fresh_schema: FreshSchema, password: str) -> None:
    user, schema = f"u{uuid.uuid4().hex[:12]}", fresh_schema(source)
    source.sql(f"CREATE USER {user} IDENTIFIED BY '{password}'; GRANT ALL ON `{schema}`.* TO {user}")
    try:
        with connected(Endpoint("s", source.host, source.port, user, Secret(password))) as connection:
            assert query(connection, "SELECT 1") == [(1,)]
        with pytest.raises(AccessDenied) as refused:
            connected(Endpoint("s", source.host, source.port, user, Secret(f"{password}!"))).__enter__()
        assert password not in repr((refused.value, str(refused.value)))
        url = parse_url(f"{source.flavour}://{user}:{password}@{source.host}:{source.port}/{schema}")
        assert Database(url).read(lambda tx: tx.exec_driver_sql("SELECT 1").scalar()) == 1
    finally:
        source.sql(f"DROP USER {user}")
