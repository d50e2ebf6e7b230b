"""Conversion of a CREATE TABLE between the dialects of two flavours, column by column and key by key.

Within a flavour nothing changes. Between flavours a column or key gets the other flavour's equivalent. A feature that
rows do not depend on is left out with a note; a feature that rows depend on, without an equivalent, raises NotCopyable.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.ddl.copyable import NotCopyable, is_json_check
from airflow_provider_dm.engine.ddl.statements import ColumnDefinition, Constraint, Key, KeyKind, TableDefinition
from airflow_provider_dm.engine.ddl.write import key_sql
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES, Capabilities
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.schema.strings import MYSQL_ONLY_CHARSETS

_BYTES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_TEXT: Final = re.compile(r"(?:_binary\s*)?'[ -&(-\[\]-~]*'|NULL|-?[0-9.]+", re.IGNORECASE)
"""A default in ASCII without escapes."""
_ONLY_MARIADB: Final = frozenset({"uuid", "inet4", "inet6"})


def adapted(table: TableDefinition, source: Flavour, target: Flavour) -> tuple[TableDefinition, tuple[str, ...]]:
    """Return (the table for the target's flavour, notes for a person). Raises NotCopyable."""
    table, lacking = _without_what_is_lacking(table, CAPABILITIES[target])
    if (source is Flavour.MARIADB) is (target is Flavour.MARIADB):
        return table, lacking
    notes = [*lacking]
    to_mariadb = target is Flavour.MARIADB
    columns = tuple(_column(column, notes, to_mariadb=to_mariadb) for column in table.columns)
    constraints = tuple(_constraint(one, notes, to_mariadb=to_mariadb) for one in table.constraints)
    return replace(table, columns=columns, constraints=constraints), tuple(notes)


def _without_what_is_lacking(table: TableDefinition, target: Capabilities) -> tuple[TableDefinition, tuple[str, ...]]:
    """Leave out features that the target lacks and no row depends on, with notes. Raises NotCopyable."""
    notes = [f"{quote(one.name)} is visible" for one in table.columns if one.invisible and not target.invisible_columns]
    columns = tuple(replace(one, invisible=one.invisible and target.invisible_columns) for one in table.columns)
    left_out = [
        one
        for one in table.constraints
        if isinstance(one, Key) and one.kind is KeyKind.FULLTEXT and not target.fulltext_keys
    ]
    notes += [f"the FULLTEXT key {one.name} is left out" for one in left_out]
    for column in columns if target.text_is_utf8 else ():
        if column.type.name in _BYTES and not (_TEXT.fullmatch(column.default or "NULL")):
            raise NotCopyable(
                f"the default {column.default} of {quote(column.name)}, which {target.title} reads as text"
            )
    constraints = tuple(one for one in table.constraints if one not in left_out)
    return replace(table, columns=columns, constraints=constraints), tuple(notes)


def _column(column: ColumnDefinition, notes: list[str], *, to_mariadb: bool) -> ColumnDefinition:
    name, kind, options = quote(column.name), column.type, dict(column.options)
    if column.generated is not None:
        raise NotCopyable(f"the generated column {name}, whose expression the other flavour may evaluate differently")
    if kind.name == "vector":
        raise NotCopyable(f"a type that only some versions have: {name} {kind.name}")
    if to_mariadb:
        if kind.charset in MYSQL_ONLY_CHARSETS:
            raise NotCopyable(f"the character set {kind.charset}")
        if kind.name == "json":
            notes.append(f"{name} json becomes longtext")
            kind = replace(kind, name="longtext", charset="utf8mb4", collation="utf8mb4_bin")
        if options.pop("SRID", None) is not None:
            notes.append(f"{name} accepts any SRID")
        return replace(column, type=kind, options=tuple(options.items()))
    if kind.name in _ONLY_MARIADB:
        raise NotCopyable(f"a type that only MariaDB has: {name} {kind.name}")
    if is_json_check(column):
        notes.append(f"{name} is text without a check")
    if options.pop("COMPRESSED", None) is not None:
        notes.append(f"{name} is not compressed")
    return replace(column, checks=(), options=tuple(options.items()))


def _constraint(constraint: Constraint, notes: list[str], *, to_mariadb: bool) -> Constraint:
    if not isinstance(constraint, Key):
        return constraint
    if any(part.expression is not None for part in constraint.parts):
        raise NotCopyable("a key over an expression")
    if constraint.kind is KeyKind.VECTOR:
        raise NotCopyable(f"a key that only MariaDB has: {constraint.name}")
    if to_mariadb and ("INVISIBLE", "") in constraint.options:
        notes.append(f"the key {constraint.name} is visible")
        return replace(constraint, options=tuple(one for one in constraint.options if one[0] != "INVISIBLE"))
    if not to_mariadb and ("USING", "HASH") in constraint.options:
        raise NotCopyable(f"the unique key {key_sql(constraint)}, which is longer than an index of MySQL can be")
    return constraint
