"""The rules of a task as its file contains them. `engine.rules` evaluates them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, model_validator

from airflow_provider_dm.engine.config.base import DmModel, one_or_many
from airflow_provider_dm.engine.config.errors import InvalidPattern
from airflow_provider_dm.engine.config.pattern import Pattern


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
    """The tables that both patterns match."""

    db_name: PatternText
    """Pattern of the schema."""
    tbl_name: PatternText
    """Pattern of the table."""


class BlockAllowConfig(DmModel):
    """A selection of tables. Empty lists filter nothing."""

    do_dbs: Patterns = ()
    """Schemas to migrate."""
    ignore_dbs: Patterns = ()
    """Schemas to leave out; `do-dbs` takes precedence."""
    do_tables: tuple[TablePattern, ...] = ()
    """Tables to migrate."""
    ignore_tables: tuple[TablePattern, ...] = ()
    """Tables to leave out; `do-tables` takes precedence."""


class ExtractColumn(DmModel):
    """A column that is filled from the groups of a regular expression over a name."""

    regexp: RegularExpression = Field(
        validation_alias=AliasChoices("table-regexp", "schema-regexp", "source-regexp", "regexp")
    )
    """Regular expression over the name; the column gets its groups, joined."""
    target_column: str = Field(min_length=1)
    """Column of the target table."""


class RouteRule(DmModel):
    """A rule for names. Without `table-pattern` it routes a schema and all tables that no table rule matches."""

    schema_pattern: PatternText
    """Pattern of the source schema."""
    table_pattern: OptionalPattern = ""
    """Pattern of the source table."""
    target_schema: str = Field(min_length=1)
    """Schema in the target."""
    target_table: str = ""
    """Table in the target; empty: the source table's name."""
    extract_table: ExtractColumn | None = None
    """A column that is filled from the name of the source table."""
    extract_schema: ExtractColumn | None = None
    """The same from the name of the schema."""
    extract_source: ExtractColumn | None = None
    """The same from the source-id."""


FILTER_EVENTS: Final = frozenset(
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
    if name not in FILTER_EVENTS:
        near = get_close_matches(name, FILTER_EVENTS, 1)
        raise ValueError(f"there is no event {text!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return name


FilterAction = Annotated[
    Literal["Do", "Ignore", "Error"],
    BeforeValidator(lambda value: value.capitalize() if isinstance(value, str) else value),
]


class FilterRule(DmModel):
    """One binlog event filter."""

    schema_pattern: PatternText
    """Pattern of the schema."""
    table_pattern: OptionalPattern = ""
    """Pattern of the table; empty: the schema itself and all of its tables."""
    events: Annotated[tuple[Annotated[str, AfterValidator(_event)], ...], Several] = ()
    """Kinds of row changes and DDL, listed below."""
    sql_pattern: Annotated[tuple[RegularExpression, ...], Several] = ()
    """Regular expressions over the text of DDL."""
    action: FilterAction
    """`Ignore`: leave out what matches. `Do`: leave out what does not match. `Error`: stop."""
    description: str = ""
    """Without effect."""


class ExpressionFilter(DmModel):
    """A rule that leaves out rows for which an expression is true. The names are not patterns."""

    schema_name: str = Field(validation_alias="schema", serialization_alias="schema", min_length=1)
    """Schema of the source table."""
    table: str = Field(min_length=1)
    """The source table."""
    insert_value_expr: str = ""
    """INSERTs of rows for which it is true are left out."""
    update_old_value_expr: str = ""
    """UPDATEs are left out if it is true for their old row."""
    update_new_value_expr: str = ""
    """UPDATEs are left out if it is true for their new row; if both are given, both have to be true."""
    delete_value_expr: str = ""
    """DELETEs of rows for which it is true are left out."""

    @model_validator(mode="after")
    def _is_about_one_event(self) -> Self:
        update = self.update_old_value_expr or self.update_new_value_expr
        given = sum(map(bool, (self.insert_value_expr, update, self.delete_value_expr)))
        if given != 1:
            many = "only those of an UPDATE can be given together" if given else "none is given"
            raise ValueError(f"insert-, update-old-, update-new- and delete-value-expr: {many}")
        return self
