"""Table routing: where a source's table goes.

A rule with `table-pattern` is a table rule, one without is a schema rule. A table goes where its table rule says; if it
has none, where its schema rule says; else to the same name. Two rules of one rank for one table are an error, as DM has
it: which of them wins would be a guess."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_dm.engine.config.pattern import Pattern
from airflow_provider_dm.engine.config.rule_models import RouteRule
from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.identifiers import TableName


@dataclass(eq=False)
class AmbiguousRoute(DmError):
    """More than one rule routes the same thing."""

    name: str
    rules: tuple[str, ...]

    code: ClassVar[str] = "DM-5201"
    scope: ClassVar[Scope] = Scope.INTERNAL
    what: ClassVar[str] = "{name} is matched by more than one route: {rules}."
    hint: ClassVar[str] = "Narrow the patterns, or drop rules from this source's route-rules."


@dataclass(frozen=True)
class Route:
    """One compiled rule; `table` is None for a schema rule."""

    schema: Pattern
    table: Pattern | None
    target_schema: str
    target_table: str

    @classmethod
    def of(cls, rule: RouteRule, *, case_sensitive: bool) -> Route:
        table = Pattern.compile(rule.table_pattern, case_sensitive=case_sensitive) if rule.table_pattern else None
        schema = Pattern.compile(rule.schema_pattern, case_sensitive=case_sensitive)
        return cls(schema, table, rule.target_schema, rule.target_table)

    def matches(self, name: TableName) -> bool:
        return self.schema.matches(name.schema) and (self.table is None or self.table.matches(name.table))

    def __str__(self) -> str:
        source = f"{self.schema.text}.{self.table.text}" if self.table else self.schema.text
        target = f"{self.target_schema}.{self.target_table}" if self.target_table else self.target_schema
        return f"{source} -> {target}"


@dataclass(frozen=True)
class Router:
    """Compiled routes of one source. Picklable."""

    table_routes: tuple[Route, ...]
    schema_routes: tuple[Route, ...]

    @classmethod
    def from_config(cls, rules: Iterable[RouteRule], *, case_sensitive: bool) -> Router:
        """Compile the rules. Raises InvalidPattern."""
        routes = [Route.of(rule, case_sensitive=case_sensitive) for rule in rules]
        return cls(
            table_routes=tuple(route for route in routes if route.table is not None),
            schema_routes=tuple(route for route in routes if route.table is None),
        )

    def route(self, name: TableName) -> TableName:
        """Return where the table goes. Raises AmbiguousRoute."""
        route = _only(name, self.table_routes) or _only(name, self.schema_routes)
        if route is None:
            return name
        return TableName(route.target_schema, route.target_table or name.table)

    def route_schema(self, schema: str) -> str:
        """Return where CREATE DATABASE of that schema goes: only schema rules count. Raises AmbiguousRoute."""
        route = _only(TableName(schema, ""), self.schema_routes)
        return route.target_schema if route else schema


def _only(name: TableName, routes: Iterable[Route]) -> Route | None:
    matching = [route for route in routes if route.matches(name)]
    if len(matching) > 1:
        raise AmbiguousRoute(str(name) if name.table else name.schema, tuple(str(route) for route in matching))
    return matching[0] if matching else None
