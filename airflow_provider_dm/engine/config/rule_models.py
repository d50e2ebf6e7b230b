"""The rules of a task as its file contains them. `engine.rules` evaluates them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, model_validator

from airflow_provider_dm.engine.config.base import DmModel, one_or_many
from airflow_provider_dm.engine.config.pattern import InvalidPattern, Pattern


def _readable(text: str, sign: str = "") -> str:
    try:
        if text:
            Pattern.compile(sign + text, case_sensitive=True)
    except InvalidPattern as error:
        raise ValueError(error.why) from None
    return text


def _regular_expression(text: str) -> str:
    return _readable(text, "~")


def _names_a_table(text: str) -> str:
    """Check a rule that maps a tool's table name to the real one: a valid regular expression with one group."""
    if (groups := re.compile(_regular_expression(text)).groups) != 1:
        raise ValueError(f"it has {groups} groups in parentheses, but must have one: the real table's name")
    return text


PatternText = Annotated[str, Field(min_length=1), AfterValidator(_readable)]
OptionalPattern = Annotated[str, AfterValidator(_readable)]
"""Empty: no pattern, unlike a pattern that matches everything."""
RegularExpression = Annotated[str, Field(min_length=1), AfterValidator(_regular_expression)]
Several = BeforeValidator(one_or_many)
Patterns = Annotated[tuple[PatternText, ...], Several]
ToolTableRules = Annotated[tuple[Annotated[str, Field(min_length=1), AfterValidator(_names_a_table)], ...], Several]


@dataclass(frozen=True)
class OnlineDdlConfig:
    """Patterns of the table names of online DDL tools: regular expressions whose group is the real table. DM's defaults
    are the names that gh-ost and pt-online-schema-change use."""

    shadow: tuple[str, ...] = (r"^_(.+)_(?:new|gho)$",)
    trash: tuple[str, ...] = (r"^_(.+)_(?:ghc|del|old)$",)


class TablePattern(DmModel):
    """One entry of do-tables or ignore-tables."""

    db_name: PatternText
    tbl_name: PatternText


class BlockAllowConfig(DmModel):
    """One entry of `block-allow-list`. Empty lists filter nothing."""

    do_dbs: Patterns = ()
    ignore_dbs: Patterns = ()
    do_tables: tuple[TablePattern, ...] = ()
    ignore_tables: tuple[TablePattern, ...] = ()


class ExtractColumn(DmModel):
    """`extract-table`, `extract-schema` or `extract-source` of a route: a column filled from a name's captures."""

    regexp: RegularExpression = Field(
        validation_alias=AliasChoices("table-regexp", "schema-regexp", "source-regexp", "regexp")
    )
    target_column: str = Field(min_length=1)


class RouteRule(DmModel):
    """One entry of `routes`. Without `table-pattern` it routes a schema and all tables that no table rule matches."""

    schema_pattern: PatternText
    table_pattern: OptionalPattern = ""
    target_schema: str = Field(min_length=1)
    target_table: str = ""
    extract_table: ExtractColumn | None = None
    extract_schema: ExtractColumn | None = None
    extract_source: ExtractColumn | None = None


EVENTS: Final = frozenset(
    {
        *("all", "all dml", "all ddl", "none", "none dml", "none ddl", "insert", "update", "delete"),
        *("create database", "drop database", "alter database"),
        *("create table", "drop table", "truncate table", "rename table", "alter table", "create view", "drop view"),
        *("create index", "drop index", "add foreign key", "drop foreign key", "incompatible ddl changes"),
        *("value range decrease", "precision decrease", "modify column", "rename column", "rename index"),
        *("drop column", "drop primary key", "drop unique key", "modify default value", "modify constraint"),
        *("modify columns order", "modify charset", "modify collation", "remove auto increment"),
        *("modify storage engine", "add column", "set default value", "rebase auto id", "add primary key"),
        *(f"{verb} table partition" for verb in ("add", "drop", "truncate", "reorganize", "rebuild", "coalesce")),
        *("split table partition", "exchange table partition", "alter table partitioning"),
        *("remove table partitioning", "modify schema charset and collate", "modify table charset and collate"),
        *("modify table comment", "recover table", "alter index visibility", "alter ttl info", "alter ttl remove"),
        "multi schema change",
    }
)
"""The events that a binlog event filter may name: DM's list."""


_OTHER_NAMES: Final = {
    "modify constaints": "modify constraint",
    "truncate": "truncate table",
    **{f"{verb} schema": f"{verb} database" for verb in ("create", "drop", "alter")},
}
"""DM's aliases, and words of DM's own task files that are not in DM's list."""


def _event(text: str) -> str:
    name = _OTHER_NAMES.get(text.lower(), text.lower())
    if name not in EVENTS:
        near = get_close_matches(name, EVENTS, 1)
        raise ValueError(f"there is no event {text!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return name


Action = Annotated[
    Literal["Do", "Ignore", "Error"],
    BeforeValidator(lambda value: value.capitalize() if isinstance(value, str) else value),
]


class FilterRule(DmModel):
    """One binlog event filter, evaluated by `rules.event_filter`."""

    schema_pattern: PatternText
    table_pattern: OptionalPattern = ""
    events: Annotated[tuple[Annotated[str, AfterValidator(_event)], ...], Several] = ()
    sql_pattern: Annotated[tuple[RegularExpression, ...], Several] = ()
    action: Action
    description: str = ""
    """Accepted without effect."""


class ExpressionFilter(DmModel):
    """One entry of `expression-filter`: rows for which it is true are left out. The names are not patterns."""

    schema_name: str = Field(validation_alias="schema", serialization_alias="schema", min_length=1)
    table: str = Field(min_length=1)
    insert_value_expr: str = ""
    update_old_value_expr: str = ""
    update_new_value_expr: str = ""
    delete_value_expr: str = ""

    @model_validator(mode="after")
    def _is_about_one_event(self) -> Self:
        update = self.update_old_value_expr or self.update_new_value_expr
        given = sum(map(bool, (self.insert_value_expr, update, self.delete_value_expr)))
        if given != 1:
            many = "only those of an UPDATE can be given together" if given else "none is given"
            raise ValueError(f"insert-, update-old-, update-new- and delete-value-expr: {many}")
        return self
