r"""Definitions as SQL, in the order in which servers show them; and the statements that are run in a target.

    parse(text, mode, schema) ─▶ statement ─▶ statement_sql(statement, mode, flavour) ─▶ parse ─▶ the same statement

Names are in back-quotes, which are names under every sql_mode, and strings in single quotes, which are strings under
every sql_mode. Whether a backslash escapes depends on the sql_mode of the session that runs the text, so it is a
parameter; the default is that of the program's own sessions, in which it does. `Code` is written unchanged: it has its
meaning only under the sql_mode of its statement. Tables in a statement always have their schema. Only statements that
can be meant for a target are supported (target_statements): not schemas, sequences, CREATE TABLE … LIKE or … SELECT.

    >>> kind = ddl.ColumnType("enum", ("x", "C:\\"))
    >>> column = ddl.ColumnDefinition("a", kind, nullable=False, default="'x'", comment="it's")
    >>> print(column_sql(column))
    `a` enum ( 'x' , 'C:\\' ) NOT NULL DEFAULT 'x' COMMENT 'it''s'
    >>> print(column_sql(column, NO_BACKSLASH_ESCAPES))
    `a` enum ( 'x' , 'C:\' ) NOT NULL DEFAULT 'x' COMMENT 'it''s'
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, assert_never

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.errors import NotWritten
from airflow_provider_dm.engine.ddl.lexer import NO_BACKSLASH_ESCAPES
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote

_MEMBERS: Final = frozenset({"enum", "set"})
_KINDS: Final = {kind: f"{kind.name} KEY" for kind in ddl.KeyKind} | {ddl.KeyKind.PLAIN: "KEY"}
_OF_TYPE: Final = ("COMPRESSED", "REF_SYSTEM_ID")
"""Options of columns that follow the type directly."""
_STRINGS: Final = frozenset(
    {"COMMENT", "COMPRESSION", "CONNECTION", "DATA DIRECTORY", "INDEX DIRECTORY", "ENCRYPTION", "PASSWORD"}
    | {"ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"}
)
"""Options whose values are strings, even if they look like words."""
_NAMES: Final = frozenset({"TABLESPACE", "WITH PARSER"})
_AS_WRITTEN: Final = frozenset({"UNION"})
_WORD: Final = re.compile(r"[A-Za-z0-9_]+")

_WITHOUT_COMMA: Final = ("PARTITION BY ", "REMOVE PARTITIONING")
"""In both grammars these follow the list of clauses without a comma."""


# Tables


def create_table_sql(name: TableName, table: ddl.TableDefinition) -> str:
    """Return a resolved definition as canonical CREATE TABLE, which is parsed back, without sql_mode, as an equal one.

    The model of a source's tables is stored and shown in this form. The table's name has no schema, as servers show it.
    """
    columns = [column if column.type.name == "timestamp" or not column.nullable else replace(column, nullable=None)
               for column in table.columns]  # fmt: skip
    elements = [*map(column_sql, columns), *map(constraint_sql, table.constraints)]
    lines = ",\n".join(f"  {element}" for element in elements)
    partitioning = "" if table.partitioning is None else f"\n{table.partitioning}"
    return f"CREATE TABLE {quote(name.table)} (\n{lines}\n) {options_sql(table.options)}{partitioning}"


def definition_sql(table: ddl.TableDefinition, sql_mode: int = 0) -> str:
    """Return the text after a new table's name."""
    elements = [
        *(column_sql(column, sql_mode) for column in table.columns),
        *(constraint_sql(constraint, sql_mode) for constraint in table.constraints),
    ]
    words = [_listed(elements)] if elements else []
    words += [options_sql(table.options, sql_mode)] if table.options else []
    words += [table.partitioning] if table.partitioning is not None else []
    return " ".join(words)


def options_sql(options: ddl.Options, sql_mode: int = 0) -> str:
    """Return the options of a table or a schema."""
    return " ".join(
        _setting("DEFAULT CHARSET" if name == "CHARSET" else name, value, sql_mode) for name, value in options
    )


def _setting(name: str, value: str, sql_mode: int) -> str:
    """Return an option and its value, if it has one, as a word if possible."""
    if name in _NAMES:
        return f"{name} {quote(value)}"
    if name == "STORAGE":
        return f"{name} {word_sql(value, sql_mode)}"
    if name in _STRINGS:
        return f"{name}={string_sql(value, sql_mode)}"
    if not value:
        return name
    return f"{name}={value if name in _AS_WRITTEN else word_sql(value, sql_mode)}"


# Columns


def column_sql(column: ddl.ColumnDefinition, sql_mode: int = 0) -> str:
    """Return the column as CREATE TABLE defines it."""
    words = [quote(column.name), _type_sql(column.type, column.options, sql_mode)]
    if column.generated is not None:
        words += ["GENERATED ALWAYS AS", column.generated, "STORED" if column.stored else "VIRTUAL"]
    if column.nullable is False or (column.nullable and column.generated is None):  # MariaDB refuses … STORED NULL
        words.append("NULL" if column.nullable else "NOT NULL")
    words += [_column_option(*option, sql_mode) for option in column.options if option[0] not in _OF_TYPE]
    words += ["INVISIBLE"] * column.invisible
    words += ["DEFAULT", column.default] if column.default is not None else []
    words += ["ON UPDATE", column.on_update] if column.on_update is not None else []
    words += ["AUTO_INCREMENT"] * column.auto_increment
    words += [_KINDS[column.key]] if column.key is not None else []
    words += ["COMMENT", string_sql(column.comment, sql_mode)] if column.comment is not None else []
    words += [check_sql(check) for check in column.checks]  # MariaDB accepts them only after all others
    words += [reference_sql(column.references)] if column.references is not None else []  # MySQL: only last
    return " ".join(words)


def _type_sql(kind: ddl.ColumnType, options: ddl.Options, sql_mode: int) -> str:
    words = [kind.name]
    if kind.arguments:
        members = kind.name in _MEMBERS
        words.append(_listed((string_sql(one, sql_mode) for one in kind.arguments) if members else kind.arguments))
    words += ["unsigned"] * kind.unsigned + ["zerofill"] * kind.zerofill
    words += [_setting(*option, sql_mode) for option in options if option[0] in _OF_TYPE]
    words += ["CHARACTER SET", word_sql(kind.charset, sql_mode)] if kind.charset else []
    words += ["BINARY"] * kind.binary
    words += ["COLLATE", word_sql(kind.collation, sql_mode)] if kind.collation else []
    return " ".join(words)


def _column_option(name: str, value: str, sql_mode: int) -> str:
    if name == "AUTO_RANDOM":
        return f"{name}({value})"
    return f"{name} {string_sql(value, sql_mode) if name in _STRINGS else word_sql(value, sql_mode)}"


# Keys and constraints


def constraint_sql(constraint: ddl.Constraint, sql_mode: int = 0, *, if_not_exists: bool = False) -> str:
    """Return a key or a constraint. `if_not_exists`: as MariaDB's ALTER TABLE adds it."""
    match constraint:
        case ddl.KeyDefinition():
            return key_sql(constraint, sql_mode, if_not_exists=if_not_exists)
        case ddl.CheckConstraint():
            return check_sql(constraint, if_not_exists=if_not_exists)
        case ddl.ForeignKey(columns, references, name):
            words = [*_called(constraint.constraint), "FOREIGN KEY", *_unless(exists=if_not_exists)]
            words += [quote(name)] if name is not None else []
            return " ".join([*words, _listed(map(quote, columns)), reference_sql(references)])


def key_sql(key: ddl.KeyDefinition, sql_mode: int = 0, *, if_not_exists: bool = False) -> str:
    """Return the key as CREATE TABLE defines it."""
    words = [*_called(key.constraint), _KINDS[key.kind], *_unless(exists=if_not_exists)]
    if key.name is not None and key.kind is not ddl.KeyKind.PRIMARY:  # TiDB refuses a name there (1280)
        words.append(quote(key.name))
    return " ".join([*words, key_parts_sql(key, sql_mode)])


def key_parts_sql(key: ddl.KeyDefinition, sql_mode: int) -> str:
    """Return the text after a key's name: its parts and options."""
    return " ".join([_listed(map(_part, key.parts)), *(_key_option(*option, sql_mode) for option in key.options)])


def check_sql(check: ddl.CheckConstraint, *, if_not_exists: bool = False) -> str:
    """Return a CHECK of a column or a table."""
    called = _called(check.constraint)
    words = [*called[:1], *_unless(exists=if_not_exists and bool(called)), *called[1:], "CHECK", check.expression]
    return " ".join([*words, *(["NOT ENFORCED"] if not check.enforced else [])])


def reference_sql(reference: ddl.Reference) -> str:
    """Return REFERENCES, always with the table's schema."""
    words = ["REFERENCES", reference.table.quoted()]
    words += [_listed(map(quote, reference.columns))] if reference.columns else []
    return " ".join([*words, *(f"{when} {action}" for when, action in reference.actions)])


def _called(name: str | None) -> list[str]:
    return ["CONSTRAINT", quote(name)] if name is not None else []


def _unless(*, exists: bool) -> list[str]:
    return ["IF NOT EXISTS"] * exists


def _key_option(name: str, value: str, sql_mode: int) -> str:
    if name == "COMMENT":
        return f"COMMENT {string_sql(value, sql_mode)}"
    return f"USING {value}" if name == "USING" else _setting(name, value, sql_mode)


def _part(part: ddl.KeyPart) -> str:
    if part.column is None:
        text = part.expression or ""
    else:
        text = quote(part.column) + (f" ( {part.prefix} )" if part.prefix is not None else "")
    return f"{text} DESC" if part.descending else text


# Strings


def string_sql(text: str, sql_mode: int = 0) -> str:
    r"""Return the string in quotes, for a session with this sql_mode.

    >>> print(string_sql("it's \\"), string_sql("it's \\", NO_BACKSLASH_ESCAPES))
    'it''s \\' 'it''s \'
    """
    if not sql_mode & NO_BACKSLASH_ESCAPES:
        text = text.replace("\\", "\\\\")
    return "'" + text.replace("'", "''") + "'"


def word_sql(value: str, sql_mode: int) -> str:
    """Return a value as a word if it is one, otherwise as a string."""
    return value if _WORD.fullmatch(value) else string_sql(value, sql_mode)


def _listed(items: Iterable[str]) -> str:
    return f"( {' , '.join(items)} )"


# Statements


def statement_sql(statement: ddl.Statement, sql_mode: int, flavour: Flavour) -> str:
    """Return the statement for a session with this sql_mode. Raises NotWritten.

    `flavour`: decides between the families' different words (ALTER INDEX … IGNORED).

    >>> from airflow_provider_dm.engine.ddl.parse import parse
    >>> print(statement_sql(parse("create index i on t (a(9))", 0, "shop"), 0, Flavour.MYSQL))
    CREATE INDEX `i` ON `shop`.`t` ( `a` ( 9 ) )
    """
    match statement:
        case ddl.CreateTable(table, definition, if_not_exists, or_replace):
            head = f"{_create(or_replace=or_replace)}TABLE {'IF NOT EXISTS ' * if_not_exists}"
            return f"{head}{table.quoted()} {definition_sql(definition, sql_mode)}"
        case ddl.AlterTable(table, specs, if_exists):
            return f"ALTER TABLE {_if(exists=if_exists)}{table.quoted()}{_specs_sql(specs, sql_mode, flavour)}"
        case ddl.CreateIndex(table, key, if_not_exists, or_replace):
            kind = "INDEX" if key.kind is ddl.KeyKind.PLAIN else f"{key.kind.name} INDEX"
            head = f"{_create(or_replace=or_replace)}{kind} {'IF NOT EXISTS ' * if_not_exists}"
            return f"{head}{quote(key.name or '')} ON {table.quoted()} {key_parts_sql(key, sql_mode)}"
        case ddl.DropIndex(table, name, if_exists):
            return f"DROP INDEX {_if(exists=if_exists)}{quote(name)} ON {table.quoted()}"
        case ddl.DropTables(tables, if_exists, False):
            return f"DROP TABLE {_if(exists=if_exists)}{', '.join(table.quoted() for table in tables)}"
        case ddl.RenameTables(pairs, if_exists):
            renames = ", ".join(f"{old.quoted()} TO {new.quoted()}" for old, new in pairs)
            return f"RENAME TABLE {_if(exists=if_exists)}{renames}"
        case ddl.TruncateTable(table):
            return f"TRUNCATE TABLE {table.quoted()}"
        case _:
            raise NotWritten(type(statement).__name__)


def _create(*, or_replace: bool) -> str:
    return "CREATE OR REPLACE " if or_replace else "CREATE "


# Clauses of ALTER TABLE


def _specs_sql(specs: tuple[ddl.Spec, ...], sql_mode: int, flavour: Flavour) -> str:
    """Return all clauses with their separators."""
    text = ""
    for spec in specs:
        last = isinstance(spec, ddl.Repartition) and spec.what.upper().startswith(_WITHOUT_COMMA)
        text += (" " if last or not text else ", ") + _spec_sql(spec, sql_mode, flavour)
    return text


def _spec_sql(spec: ddl.Spec, sql_mode: int, flavour: Flavour) -> str:
    match spec:
        # Columns
        case ddl.AddColumn(column, place, if_not_exists):
            return f"ADD COLUMN {'IF NOT EXISTS ' * if_not_exists}{column_sql(column, sql_mode)}{_place(place)}"
        case ddl.DropColumn(name, if_exists):
            return f"DROP COLUMN {_if(exists=if_exists)}{quote(name)}"
        case ddl.ChangeColumn(name, column, place, if_exists):
            what = "MODIFY COLUMN " if name == column.name else "CHANGE COLUMN "
            old = "" if name == column.name else f"{quote(name)} "
            return f"{what}{_if(exists=if_exists)}{old}{column_sql(column, sql_mode)}{_place(place)}"
        case ddl.RenameColumn(name, to, if_exists):
            return f"RENAME COLUMN {_if(exists=if_exists)}{quote(name)} TO {quote(to)}"
        case ddl.SetDefault(name, default, if_exists):
            how = "DROP DEFAULT" if default is None else f"SET DEFAULT {default}"
            return f"ALTER COLUMN {_if(exists=if_exists)}{quote(name)} {how}"
        case ddl.SetColumnVisibility(name, invisible):
            return f"ALTER COLUMN {quote(name)} SET {'INVISIBLE' if invisible else 'VISIBLE'}"
        # Keys and constraints
        case ddl.AddConstraint(constraint, if_not_exists):
            return f"ADD {constraint_sql(constraint, sql_mode, if_not_exists=if_not_exists)}"
        case ddl.DropKey("PRIMARY", False):
            return "DROP PRIMARY KEY"
        case ddl.DropKey(name, if_exists):
            return f"DROP KEY {_if(exists=if_exists)}{quote(name)}"
        case ddl.DropForeignKey(name, if_exists):
            return f"DROP FOREIGN KEY {_if(exists=if_exists)}{quote(name)}"
        case ddl.DropConstraint(name, if_exists):
            return f"DROP CONSTRAINT {_if(exists=if_exists)}{quote(name)}"
        case ddl.RenameKey(name, to, if_exists):
            return f"RENAME KEY {_if(exists=if_exists)}{quote(name)} TO {quote(to)}"
        case ddl.SetKeyVisibility(name, invisible):
            return f"ALTER INDEX {quote(name)} {CAPABILITIES[flavour].key_visibility[invisible]}"
        case ddl.EnforceCheck(name, enforced):
            return f"ALTER CHECK {quote(name)} {'' if enforced else 'NOT '}ENFORCED"
        # The table
        case ddl.RenameTo(table):
            return f"RENAME TO {table.quoted()}"
        case ddl.ConvertCharset(charset, collation):
            collate = f" COLLATE {word_sql(collation, sql_mode)}" if collation is not None else ""
            return f"CONVERT TO CHARACTER SET {word_sql(charset or 'DEFAULT', sql_mode)}{collate}"
        case ddl.SetOptions(options):
            return options_sql(options, sql_mode)
        # Partitions
        case ddl.DropPartitions(names, if_exists):
            return f"DROP PARTITION {_if(exists=if_exists)}{_quoted(names)}"
        case ddl.TruncatePartitions(names):
            return f"TRUNCATE PARTITION {_quoted(names) or 'ALL'}"
        case ddl.ExchangePartition(partition, table):
            return f"EXCHANGE PARTITION {quote(partition)} WITH TABLE {table.quoted()}"
        case ddl.PartitionToTable(partition, table):
            return f"CONVERT PARTITION {quote(partition)} TO TABLE {table.quoted()}"
        case ddl.TableToPartition(table, code):
            return f"CONVERT TABLE {table.quoted()} TO PARTITION {code}"
        case ddl.Repartition(code) | ddl.MaintenanceClause(code) | ddl.SwapTablespace(code):
            return code
        case _:
            assert_never(spec)


def _if(*, exists: bool) -> str:
    return "IF EXISTS " if exists else ""


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(map(quote, names))


def _place(place: ddl.Place) -> str:
    match place:
        case ddl.First():
            return " FIRST"
        case ddl.After(column):
            return f" AFTER {quote(column)}"
        case None:
            return ""
