"""The definitions by which a task reads rows of its source tables, for `dmctl binlog-schema` and for DAGs.

They are stored in the target with the task's checkpoint. They can be read at any time; a change claims the task for a
moment, and is refused while a run of the task is working.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.schema_by_hand import (
    change_definition,
    definition_at,
    known_tables,
    table_not_known,
)
from airflow_provider_dm.engine.downstream.session import fresh_target
from airflow_provider_dm.engine.downstream.table_definitions import Definition
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules


@dataclass(frozen=True)
class TableSchemas:
    """The definitions of one task's source tables."""

    task: TaskConfig
    target: Endpoint

    def known(self, source: str) -> Mapping[TableName, Definition]:
        """Return the definitions by which the task reads this source's log. Raises SubtaskMissing, IncompleteResult."""
        with fresh_target(self.target) as connection:
            return known_tables(connection, self._ref(source))

    def get(self, source: str, name: TableName) -> Definition:
        """Return one table's definition; without text if a user has removed it. Raises InvalidInput, and the errors of
        `known`.
        """
        definition = self.known(source).get(name)
        if definition is None:
            raise self._unknown(source, name)
        return definition

    def check_selected(self, source: str, name: TableName) -> None:
        """Raise InvalidInput for a table that the task's block-allow-list excludes."""
        if not self._rules(source).block_allow.allows(name):
            raise self._unknown(source, name)

    def change(self, store: MetaStore, source: str, name: TableName, new: Definition | None) -> None:
        """Replace the definition of a table; None removes it. Raises the errors of `known` and `change_definition`."""
        self.check_selected(source, name)
        self.known(source)  # before a claim creates a row for a subtask that has never started
        change_definition(store, self.target, self._ref(source), name, new)

    def in_target(self, source: str, name: TableName) -> Definition:
        """Return a table's definition derived from its target table. Raises TableNotFound, InvalidInput."""
        with fresh_target(self.target) as connection:
            return definition_at(connection, name, place=self._rules(source).router.route(name))

    def _unknown(self, source: str, name: TableName) -> InvalidInput:
        return table_not_known(str(name), *self._ref(source).key)

    def _ref(self, source: str) -> SubtaskRef:
        return SubtaskRef(self.task.meta_schema, self.task.name, source)

    def _rules(self, source: str) -> SubtaskRules:
        return SubtaskRules.of(self.task.subtask(source))


def in_source(endpoint: Endpoint, name: TableName) -> Definition:
    """Return a table's current definition at its source. Raises TableNotFound, InvalidInput."""
    with connected(endpoint) as connection:
        return definition_at(connection, name)
