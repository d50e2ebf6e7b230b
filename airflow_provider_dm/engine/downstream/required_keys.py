"""Tables without a primary key, in a target that requires one.

A server may require a primary key for every table, or add one by itself (MySQL's `sql_require_primary_key` and
`sql_generate_invisible_primary_key`). A generated key is a column that no row of the source has. Both are turned off in
this program's sessions; if the account may not do that, an error is raised before anything is created.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pymysql
from pymysql.constants import ER

from airflow_provider_dm.engine.downstream.errors import KeyDemanded
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.errors import SessionRefused
from airflow_provider_dm.engine.mysql.pinned import Setting
from airflow_provider_dm.engine.mysql.pinning import set_all

_KEYS_DEMANDED: Final = (Setting("sql_require_primary_key", 0), Setting("sql_generate_invisible_primary_key", 0))
_NO_KEY: Final = {ER.REQUIRES_PRIMARY_KEY: "innodb_force_primary_key", 3750: "sql_require_primary_key"}


def check_keyless(connection: Connection, tables: Sequence[str], server: str) -> None:
    """Allow these tables without a primary key in this session. Raises KeyDemanded."""
    try:
        if tables:
            set_all(connection, _KEYS_DEMANDED, server=server)
    except SessionRefused as refused:
        raise KeyDemanded(tuple(tables), refused.variable) from None


def key_demanded(error: pymysql.err.MySQLError, table: str) -> KeyDemanded | None:
    """Return the error for a table that was rejected because it has no primary key; None for any other reason."""
    setting = _NO_KEY.get(error.args[0]) if error.args else None
    return None if setting is None else KeyDemanded((table,), setting)
