"""The block-allow list: the tables of a source that belong to the task.

The schema is checked first (`do-dbs`; `ignore-dbs` only if that is empty), then the table: a table in `do-tables` is
included, a table in `ignore-tables` is excluded, and all others are included only if `do-tables` is empty. The servers'
own schemas and the task's meta-schema are never included: copying them would overwrite the target's own state. While
`online-ddl` is on, tables that an online DDL tool creates for an included table are excluded too: their rows belong to
that table, or are not needed (`tool_tables`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from airflow_provider_dm.engine.config.pattern import Pattern, TableMatcher
from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig, OnlineDdlConfig, TablePattern
from airflow_provider_dm.engine.mysql.identifiers import SYSTEM_SCHEMAS, TableName
from airflow_provider_dm.engine.rules.online_ddl.tool_tables import NO_TOOLS, TableKind, ToolTables


@dataclass(frozen=True)
class BlockAllowRules:
    """Compiled lists of one source. Picklable."""

    do_dbs: tuple[Pattern, ...]
    ignore_dbs: tuple[Pattern, ...]
    do_tables: tuple[TableMatcher, ...]
    ignore_tables: tuple[TableMatcher, ...]
    never: frozenset[str]
    """Schemas in lower case that no rule can include."""
    tools: ToolTables = NO_TOOLS

    @classmethod
    def from_config(
        cls,
        config: BlockAllowConfig,
        *,
        case_sensitive: bool,
        meta_schema: str,
        online_ddl: OnlineDdlConfig | None = None,
    ) -> BlockAllowRules:
        """Compile the lists. Raises InvalidPattern."""

        def patterns(texts: Sequence[str]) -> tuple[Pattern, ...]:
            return tuple(Pattern.compile(text, case_sensitive=case_sensitive) for text in texts)

        def matchers(tables: Sequence[TablePattern]) -> tuple[TableMatcher, ...]:
            return tuple(
                TableMatcher.compile(table.db_name, table.tbl_name, case_sensitive=case_sensitive) for table in tables
            )

        return cls(
            do_dbs=patterns(config.do_dbs),
            ignore_dbs=patterns(config.ignore_dbs),
            do_tables=matchers(config.do_tables),
            ignore_tables=matchers(config.ignore_tables),
            never=SYSTEM_SCHEMAS | {meta_schema.lower()},
            tools=ToolTables.of(online_ddl, case_sensitive=case_sensitive) if online_ddl else NO_TOOLS,
        )

    def allows(self, name: TableName) -> bool:
        """Return True if the table belongs to the task."""
        return self._lists_allow(name) and self.kind_of(name) is TableKind.REAL

    def kind_of(self, name: TableName) -> TableKind:
        """Return whether the table is an online DDL tool's table for an allowed table, or an ordinary one."""
        return self.tools.kind_of(name, self._lists_allow)

    def _lists_allow(self, name: TableName) -> bool:
        return self.allows_schema(name.schema) and self._allows_table(name)

    def allows_schema(self, schema: str) -> bool:
        """Return True if the schema, as in CREATE DATABASE, belongs to the task."""
        if schema.lower() in self.never:
            return False
        if self.do_dbs:
            return any(pattern.matches(schema) for pattern in self.do_dbs)
        return not any(pattern.matches(schema) for pattern in self.ignore_dbs)

    def names_all_of(self, schema: str) -> bool:
        """Return True if the lists name every allowed table of the schema, so that no other can be included."""
        here = [matcher for matcher in self.do_tables if matcher.schema.matches(schema)]
        return bool(self.do_tables) and all(matcher.table and matcher.table.is_name for matcher in here)

    def named_schemas(self) -> list[str]:
        """Return the schemas that the lists name, and of which a table can be included."""
        named = [pattern.text for pattern in self.do_dbs if pattern.is_name and self.allows_schema(pattern.text)]
        wanted = [table.schema for table in self.do_tables]
        return [one for one in named if not wanted or any(schema.matches(one) for schema in wanted)]

    def _allows_table(self, name: TableName) -> bool:
        if any(matcher.matches(name) for matcher in self.do_tables):
            return True
        if any(matcher.matches(name) for matcher in self.ignore_tables):
            return False
        return not self.do_tables


def select(names: Iterable[TableName], rules: BlockAllowRules) -> list[TableName]:
    """Return the tables that belong to the task, in the order given."""
    return [name for name in names if rules.allows(name)]
