"""The rules of one source of a task, compiled once."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_dm.engine.config.task import SubtaskConfig
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.event_filter import NO_FILTER, EventAction, EventFilter
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.rules.row_filter import NO_EXPRESSIONS, ExpressionFilters


@dataclass(frozen=True)
class SubtaskRules:
    """The block-allow-list, which decides the tables of the subtask, the routes, which decide their target tables, and
    the filters, which decide the replicated events. Picklable."""

    block_allow: BlockAllowRules
    router: Router
    events: EventFilter = NO_FILTER
    expressions: ExpressionFilters = NO_EXPRESSIONS

    @classmethod
    def of(cls, subtask: SubtaskConfig, source: Endpoint | None = None) -> SubtaskRules:
        """Compile the rules. `source`: see ExpressionFilters. Raises InvalidPattern."""
        return cls(
            BlockAllowRules.from_config(
                subtask.block_allow,
                case_sensitive=subtask.case_sensitive,
                meta_schema=subtask.meta_schema,
                online_ddl=subtask.online_ddl,
            ),
            Router.from_config(subtask.routes, case_sensitive=subtask.case_sensitive, source_id=subtask.source_id),
            EventFilter.from_config(subtask.filters, case_sensitive=subtask.case_sensitive),
            ExpressionFilters(subtask.expression_filters, subtask.case_sensitive, subtask.timezone, source),
        )

    def target_of(self, name: TableName) -> TableName | None:
        """Return the target table of a source table; None if it does not belong to the subtask."""
        return self.router.route(name) if self.block_allow.allows(name) else None

    def may_ignore_rows(self, name: TableName) -> bool:
        """Return True if a filter of this table may ignore INSERTs or UPDATEs, also if a column of it is missing."""
        return (
            self.events.of_rows(name, "insert") is EventAction.IGNORE
            or self.events.of_rows(name, "update") is EventAction.IGNORE
            or any(
                one.insert_value_expr or one.update_old_value_expr or one.update_new_value_expr
                for one in self.expressions.of(name)
            )
        )
