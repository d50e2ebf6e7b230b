"""The rules of a task as its file writes them. What they mean is decided in `engine.rules`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field

from airflow_provider_dm.engine.config.base import DmModel, Names, one_or_many
from airflow_provider_dm.engine.config.pattern import InvalidPattern, Pattern


def _readable(text: str) -> str:
    try:
        if text:
            Pattern.compile(text, case_sensitive=True)
    except InvalidPattern as error:
        raise ValueError(error.why) from None
    return text


def _names_a_table(text: str) -> str:
    """Check a rule that makes a real table's name of a tool's table: a regular expression, as it is, with one group."""
    try:
        Pattern.compile(f"~{text}", case_sensitive=True)
    except InvalidPattern as error:
        raise ValueError(error.why) from None
    if (groups := re.compile(text).groups) != 1:
        raise ValueError(f"it has {groups} groups in parentheses, and one has to be the real table's name")
    return text


PatternText = Annotated[str, Field(min_length=1), AfterValidator(_readable)]
OptionalPattern = Annotated[str, AfterValidator(_readable)]
"""Empty: no pattern, which is something else than one that matches everything."""
Patterns = Annotated[tuple[PatternText, ...], BeforeValidator(one_or_many)]
ToolTableRules = Annotated[
    tuple[Annotated[str, Field(min_length=1), AfterValidator(_names_a_table)], ...], BeforeValidator(one_or_many)
]

SHADOW_TABLE_RULES: Final = (r"^_(.+)_(?:new|gho)$",)
TRASH_TABLE_RULES: Final = (r"^_(.+)_(?:ghc|del|old)$",)
"""DM's defaults: the names that gh-ost and pt-online-schema-change give."""


@dataclass(frozen=True)
class OnlineDdlConfig:
    """How the tables of online DDL tools are told from others: regular expressions whose group is the real table."""

    shadow: tuple[str, ...] = SHADOW_TABLE_RULES
    trash: tuple[str, ...] = TRASH_TABLE_RULES


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

    regexp: str = Field(
        validation_alias=AliasChoices("table-regexp", "schema-regexp", "source-regexp", "regexp"), min_length=1
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


class FilterRule(DmModel):
    """One binlog event filter."""

    schema_pattern: PatternText
    table_pattern: OptionalPattern = ""
    events: Names = ()
    sql_pattern: Names = ()
    action: str


class ExpressionFilter(DmModel):
    """One entry of `expression-filter`."""

    schema_name: str = Field(validation_alias="schema", serialization_alias="schema", min_length=1)
    table: str = Field(min_length=1)
    insert_value_expr: str = ""
    update_old_value_expr: str = ""
    update_new_value_expr: str = ""
    delete_value_expr: str = ""
