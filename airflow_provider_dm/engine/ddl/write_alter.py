"""Parts of ALTER TABLE as SQL again.

AddColumn(a int, First()), DropKey(PRIMARY), Repartition(REMOVE PARTITIONING)
─▶ ADD COLUMN `a` int FIRST, DROP PRIMARY KEY REMOVE PARTITIONING
"""

from __future__ import annotations

from typing import Final, assert_never

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.write import column_sql, constraint_sql, options_sql, word_sql
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import quote

_WITHOUT_COMMA: Final = ("PARTITION BY ", "REMOVE PARTITIONING")
"""Both grammars have these behind the list of parts, and not in it."""


def specs_sql(specs: tuple[ddl.Spec, ...], sql_mode: int, flavour: Flavour) -> str:
    """Return all parts, with what separates them."""
    text = ""
    for spec in specs:
        last = isinstance(spec, ddl.Repartition) and spec.what.upper().startswith(_WITHOUT_COMMA)
        text += (" " if last or not text else ", ") + _spec_sql(spec, sql_mode, flavour)
    return text


def _spec_sql(spec: ddl.Spec, sql_mode: int, flavour: Flavour) -> str:
    match spec:
        # Columns
        case ddl.AddColumn(column, place, if_not_exists):
            return f"ADD COLUMN {_unless(if_not_exists)}{column_sql(column, sql_mode)}{_place(place)}"
        case ddl.DropColumn(name, if_exists):
            return f"DROP COLUMN {if_exists_sql(if_exists)}{quote(name)}"
        case ddl.ChangeColumn(name, column, place, if_exists):
            what = "MODIFY COLUMN " if name == column.name else "CHANGE COLUMN "
            old = "" if name == column.name else f"{quote(name)} "
            return f"{what}{if_exists_sql(if_exists)}{old}{column_sql(column, sql_mode)}{_place(place)}"
        case ddl.RenameColumn(name, to, if_exists):
            return f"RENAME COLUMN {if_exists_sql(if_exists)}{quote(name)} TO {quote(to)}"
        case ddl.SetDefault(name, default, if_exists):
            how = "DROP DEFAULT" if default is None else f"SET DEFAULT {default}"
            return f"ALTER COLUMN {if_exists_sql(if_exists)}{quote(name)} {how}"
        case ddl.SetColumnVisibility(name, invisible):
            return f"ALTER COLUMN {quote(name)} SET {'INVISIBLE' if invisible else 'VISIBLE'}"
        # Keys and constraints
        case ddl.AddConstraint(constraint, if_not_exists):
            return f"ADD {constraint_sql(constraint, sql_mode, if_not_exists=if_not_exists)}"
        case ddl.DropKey("PRIMARY", False):
            return "DROP PRIMARY KEY"
        case ddl.DropKey(name, if_exists):
            return f"DROP KEY {if_exists_sql(if_exists)}{quote(name)}"
        case ddl.DropForeignKey(name, if_exists):
            return f"DROP FOREIGN KEY {if_exists_sql(if_exists)}{quote(name)}"
        case ddl.DropConstraint(name, if_exists):
            return f"DROP CONSTRAINT {if_exists_sql(if_exists)}{quote(name)}"
        case ddl.RenameKey(name, to, if_exists):
            return f"RENAME KEY {if_exists_sql(if_exists)}{quote(name)} TO {quote(to)}"
        case ddl.SetKeyVisibility(name, invisible):
            shown, hidden = ("NOT IGNORED", "IGNORED") if flavour is Flavour.MARIADB else ("VISIBLE", "INVISIBLE")
            return f"ALTER INDEX {quote(name)} {hidden if invisible else shown}"
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
            return f"DROP PARTITION {if_exists_sql(if_exists)}{_names(names)}"
        case ddl.TruncatePartitions(names):
            return f"TRUNCATE PARTITION {_names(names) or 'ALL'}"
        case ddl.ExchangePartition(partition, table):
            return f"EXCHANGE PARTITION {quote(partition)} WITH TABLE {table.quoted()}"
        case ddl.PartitionToTable(partition, table):
            return f"CONVERT PARTITION {quote(partition)} TO TABLE {table.quoted()}"
        case ddl.TableToPartition(table, code):
            return f"CONVERT TABLE {table.quoted()} TO PARTITION {code}"
        case ddl.Repartition(code) | ddl.Upkeep(code) | ddl.SwapTablespace(code):
            return code
        case _:
            assert_never(spec)


def if_exists_sql(exists: bool) -> str:
    """Return IF EXISTS and a space, or nothing."""
    return "IF EXISTS " if exists else ""


def _unless(exists: bool) -> str:
    return "IF NOT EXISTS " if exists else ""


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(quote, names))


def _place(place: ddl.Place) -> str:
    match place:
        case ddl.First():
            return " FIRST"
        case ddl.After(column):
            return f" AFTER {quote(column)}"
        case None:
            return ""
