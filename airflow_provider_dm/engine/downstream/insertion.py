"""The insertion of rows: one LOAD DATA if the target allows it and writes every row unchanged, else INSERTs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Final

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.downstream.load_data import load_data_of, run_load_data
from airflow_provider_dm.engine.downstream.row_statements import Dialect, SqlStatement, Verb
from airflow_provider_dm.engine.downstream.tuples import write_tuple_cells
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.rules.mapping import TableMapping

FEWEST_LOADED: Final = 200
"""A LOAD takes three round trips, an INSERT one."""


class Insertion:
    """The rows of `cells` with these numbers (int64).

    The constructor makes the statements, so that the transaction holds no locks meanwhile.
    """

    def __init__(self, mapping: TableMapping, cells: Cells, numbers: Any, verb: Verb, dialect: Dialect) -> None:
        loaded = verb is Verb.INSERT and len(numbers) >= FEWEST_LOADED
        self._numbers = numbers
        self._load = load_data_of(mapping, cells, numbers, dialect) if loaded else None
        self._write = partial(write_tuple_cells, mapping, cells, numbers, verb, dialect)
        if self._load is None:
            _ = self._inserts

    @cached_property
    def _inserts(self) -> list[SqlStatement]:
        return list(self._write())

    def run(self, connection: Connection, insert: Callable[[SqlStatement, Any], object]) -> None:
        """Insert the rows, inside a transaction. `insert` executes a statement with the rows of these numbers.

        Raises what `run_load_data` and `insert` raise.
        """
        if self._load is not None and run_load_data(connection, self._load):
            return
        at = 0
        for statement in self._inserts:
            insert(statement, self._numbers[at : at + statement.rows])
            at += statement.rows
