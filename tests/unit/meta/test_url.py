"""Addresses of metadata DBs."""

import sys

import pytest
from sqlalchemy.engine import make_url

from airflow_provider_dm.engine.errors import DmError, InvalidInput
from airflow_provider_dm.engine.meta.errors import MetaUnreachable
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.meta.url import parse_url, without_password
from airflow_provider_dm.engine.mysql.endpoint import Secret


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        ("sqlite:////tmp/m.db", "sqlite+pysqlite"),
        ("mysql://u:p@h/db", "mysql+pymysql"),
        ("mysql+mysqldb://u:p@h/db", "mysql+pymysql"),
        ("mariadb://u:p@h/db", "mariadb+pymysql"),
        ("postgres://u:p@h/db", "postgresql+psycopg"),
        ("postgresql+asyncpg://u:p@h/db", "postgresql+psycopg"),
    ],
)
def test_our_driver_is_used_whatever_the_url_names(given: str, driver: str) -> None:
    assert parse_url(Secret(given)).drivername == driver


@pytest.mark.parametrize("given", ["hunter2", "oracle://u:hunter2@h/db", "sqlite://", "sqlite:///:memory:", ""])
def test_a_bad_url_is_refused_without_repeating_it(given: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_url(given)
    assert "hunter2" not in str(refusal.value)


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    assert without_password(make_url("mysql://u:hunter2@h:1/db?ssl_key=hunter2")) == "mysql://u:***@h:1/db"


def test_an_unreachable_server_is_named_without_its_password() -> None:
    with pytest.raises(MetaUnreachable) as error:
        MetaStore.open("mysql://dm:hunter2@127.0.0.1:1/meta")
    assert "127.0.0.1:1/meta" in str(error.value)
    assert "hunter2" not in str(error.value)
    assert error.value.__cause__ is None


def test_a_driver_that_is_not_installed_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    there = "postgresql://dm@127.0.0.1:1/meta"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(DmError, match=r"pip install 'psycopg\[binary\]'"):
            MetaStore.open(there)
    with pytest.raises(MetaUnreachable):
        MetaStore.open(there)


def test_a_missing_folder_is_refused() -> None:
    with pytest.raises(MetaUnreachable, match="unable to open database file"):
        MetaStore.open("sqlite:////nonexistent/meta.db")
