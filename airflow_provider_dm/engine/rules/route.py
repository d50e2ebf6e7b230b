"""Table routing: the target table of a source's table.

A rule with `table-pattern` is a table rule, a rule without it is a schema rule. A table is routed by its table rule, or
else by its schema rule, or else to the same name. Two table rules, or two schema rules, for one table are an error, as
in DM: choosing one would be a guess.

A rule may also fill columns of the target table from the names of the source's table, schema and source-id, by regular
expressions: `extract-table`, `extract-schema`, `extract-source`. The value is the concatenation of all groups of the
first match; it is empty without a match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_dm.engine.config.pattern import TableMatcher
from airflow_provider_dm.engine.config.rule_models import RouteRule
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.identifiers import TableName


@dataclass(frozen=True)
class Extract:
    """A column of the target that is filled from the name of the `table`, the `schema` or the `source`."""

    what: str
    regexp: re.Pattern[str]
    column: str

    def value(self, name: str) -> str:
        """Return the concatenated groups of the first match.

        >>> Extract("source", re.compile("mysql-(.*)-([0-9]+)"), "c").value("mysql-replica-01")
        'replica01'
        """
        match = self.regexp.search(name)
        return "".join(group or "" for group in match.groups()) if match else ""


@dataclass(frozen=True)
class Route:
    """A compiled rule: a table rule, or a schema rule, whose `tables` are all tables."""

    tables: TableMatcher
    target_schema: str
    target_table: str
    extracts: tuple[Extract, ...] = ()

    @classmethod
    def of(cls, rule: RouteRule, *, case_sensitive: bool) -> Route:
        tables = TableMatcher.compile(rule.schema_pattern, rule.table_pattern, case_sensitive=case_sensitive)
        rules = (("table", rule.extract_table), ("schema", rule.extract_schema), ("source", rule.extract_source))
        extracts = tuple(Extract(what, re.compile(one.regexp), one.target_column) for what, one in rules if one)
        return cls(tables, rule.target_schema, rule.target_table, extracts)

    def __str__(self) -> str:
        target = f"{self.target_schema}.{self.target_table}" if self.target_table else self.target_schema
        return f"{self.tables} -> {target}"


@dataclass(frozen=True)
class Router:
    """Compiled routes of one source. Picklable."""

    table_routes: tuple[Route, ...]
    schema_routes: tuple[Route, ...]
    source_id: str = ""

    @classmethod
    def from_config(cls, rules: Iterable[RouteRule], *, case_sensitive: bool, source_id: str = "") -> Router:
        """Compile the rules of a source. Raises InvalidPattern."""
        routes = [Route.of(rule, case_sensitive=case_sensitive) for rule in rules]
        return cls(
            table_routes=tuple(route for route in routes if route.tables.table is not None),
            schema_routes=tuple(route for route in routes if route.tables.table is None),
            source_id=source_id,
        )

    def route(self, name: TableName) -> TableName:
        """Return the target table. Raises InvalidInput."""
        route = self._route(name)
        if route is None:
            return name
        return TableName(route.target_schema, route.target_table or name.table)

    def routes_to(self, target: TableName) -> bool:
        """Return True if a rule routes to this target table, whether or not the source has tables for the rule.

        >>> from airflow_provider_dm.engine.config.rule_models import RouteRule
        >>> rule = RouteRule.model_validate({"schema-pattern": "shop_*", "target-schema": "shop"})
        >>> router = Router.from_config([rule], case_sensitive=True)
        >>> router.routes_to(TableName("shop", "orders")), router.routes_to(TableName("shop_1", "orders"))
        (True, False)
        """
        routes = (*self.table_routes, *self.schema_routes)
        return any(one.target_schema == target.schema and one.target_table in ("", target.table) for one in routes)

    def extracted(self, name: TableName) -> dict[str, str]:
        """Return the columns that routing adds to those of the table, with their values. Raises InvalidInput."""
        route = self._route(name)
        names = {"table": name.table, "schema": name.schema, "source": self.source_id}
        return {extract.column: extract.value(names[extract.what]) for extract in route.extracts} if route else {}

    def _route(self, name: TableName) -> Route | None:
        return _only_match(name, self.table_routes) or _only_match(name, self.schema_routes)


def _only_match(name: TableName, routes: Iterable[Route]) -> Route | None:
    matching = [route for route in routes if route.tables.matches(name)]
    if len(matching) > 1:
        raise InvalidInput(
            f"{name} is matched by more than one route: {', '.join(map(str, matching))}.",
            "Narrow the patterns, or drop rules from this source's route-rules.",
        )
    return matching[0] if matching else None
