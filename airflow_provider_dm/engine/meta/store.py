"""The interface of the metadata DB: `with MetaStore.open(url) as store`.

Each noun has a module with its statements, a base class of the store. Every call is one short transaction; nothing
stays open between calls, so a store may live as long as a process and be shared by its threads."""

from __future__ import annotations

from typing import Self

from airflow_provider_dm.engine.meta.binlog_operators import BinlogOperators
from airflow_provider_dm.engine.meta.database import Database
from airflow_provider_dm.engine.meta.ddl_locks import DdlLocks
from airflow_provider_dm.engine.meta.errors import MetaSchemaDiffers
from airflow_provider_dm.engine.meta.lease import Leases
from airflow_provider_dm.engine.meta.relays import RelayRows
from airflow_provider_dm.engine.meta.runs import Runs
from airflow_provider_dm.engine.meta.subtasks import Subtasks
from airflow_provider_dm.engine.meta.tables import SCHEMA_VERSION, schema_version
from airflow_provider_dm.engine.meta.url import parse_url, without_password
from airflow_provider_dm.engine.mysql.endpoint import Secret


class MetaStore(Leases, Runs, Subtasks, BinlogOperators, DdlLocks, RelayRows):
    """All records of the metadata DB. Every write that depends on a row locks the row first."""

    @classmethod
    def open(cls, url: Secret | str) -> Self:
        """Open the metadata DB. Raises InvalidInput, MetaUnreachable, NotInstalled, MetaSchemaDiffers."""
        store = cls(Database(parse_url(url)))
        try:
            store.check_schema()
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_schema(self) -> None:
        """Check that the DB has the schema of this release. Raises MetaSchemaDiffers."""
        version = self._database.read(schema_version)
        if version != SCHEMA_VERSION:
            raise MetaSchemaDiffers(without_password(self._database.url), version or "none", SCHEMA_VERSION)
