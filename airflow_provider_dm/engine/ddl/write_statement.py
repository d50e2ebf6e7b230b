"""A statement as SQL again, to be run by a session with the sql_mode that its text was read under.

    parse(text, mode, schema) ─▶ statement ─▶ statement_sql(statement, mode, flavour) ─▶ parse ─▶ the same statement

Nothing of the upstream's text is left but `Code`, of which the mode decides what it means: that is why the mode has to
be the same. Tables are always written with their schema. Written is what may be meant for a target (target_statements):
schemas, sequences, and tables that are made like others or by a query are not.
"""

from __future__ import annotations

from airflow_provider_dm.engine.ddl.statements import (
    AlterTable,
    CreateIndex,
    CreateTable,
    DropIndex,
    DropTables,
    KeyKind,
    RenameTables,
    Statement,
    TruncateTable,
)
from airflow_provider_dm.engine.ddl.write import definition_sql, key_parts_sql
from airflow_provider_dm.engine.ddl.write_alter import if_exists_sql, specs_sql
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import quote


class NotWritten(Exception):
    """A statement of a kind that is not written anew; the argument names it."""


def statement_sql(statement: Statement, sql_mode: int, flavour: Flavour) -> str:
    """Return the statement for a session with this sql_mode. Raises NotWritten.

    `flavour`: whose words are used where the families have different ones for the same (ALTER INDEX … IGNORED).

    >>> from airflow_provider_dm.engine.ddl.parse import parse
    >>> print(statement_sql(parse("create index i on t (a(9))", 0, "shop"), 0, Flavour.MYSQL))
    CREATE INDEX `i` ON `shop`.`t` ( `a` ( 9 ) )
    """
    match statement:
        case CreateTable(table, definition, if_not_exists, or_replace):
            head = _create("TABLE", or_replace=or_replace, if_not_exists=if_not_exists)
            return f"{head}{table.quoted()} {definition_sql(definition, sql_mode)}"
        case AlterTable(table, specs, if_exists):
            return f"ALTER TABLE {if_exists_sql(if_exists)}{table.quoted()}{specs_sql(specs, sql_mode, flavour)}"
        case CreateIndex(table, key, if_not_exists, or_replace):
            kind = "INDEX" if key.kind is KeyKind.PLAIN else f"{key.kind.name} INDEX"
            head = _create(kind, or_replace=or_replace, if_not_exists=if_not_exists)
            return f"{head}{quote(key.name or '')} ON {table.quoted()} {key_parts_sql(key, sql_mode)}"
        case DropIndex(table, name, if_exists):
            return f"DROP INDEX {if_exists_sql(if_exists)}{quote(name)} ON {table.quoted()}"
        case DropTables(tables, if_exists, False):
            return f"DROP TABLE {if_exists_sql(if_exists)}{', '.join(table.quoted() for table in tables)}"
        case RenameTables(pairs, if_exists):
            renames = ", ".join(f"{old.quoted()} TO {new.quoted()}" for old, new in pairs)
            return f"RENAME TABLE {if_exists_sql(if_exists)}{renames}"
        case TruncateTable(table):
            return f"TRUNCATE TABLE {table.quoted()}"
        case _:
            raise NotWritten(type(statement).__name__)


def _create(what: str, *, or_replace: bool, if_not_exists: bool) -> str:
    return f"CREATE {'OR REPLACE ' * or_replace}{what} {'IF NOT EXISTS ' * if_not_exists}"
