"""The grammar of ALTER TABLE, clause by clause.

ADD COLUMN a INT FIRST, DROP KEY k, COMMENT = 'x' ENGINE InnoDB
─▶ AddColumn(ColumnDefinition(a, …), First()), DropKey(k), SetOptions(((COMMENT, x), (ENGINE, InnoDB)))
"""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.create_table import (
    begins_constraint,
    column,
    constraint,
    default,
    element_of,
    options_of,
)
from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.ddl.token_reader import Reader

_KEY: Final = ("INDEX", "KEY")
_LOCAL: Final = ("NO_WRITE_TO_BINLOG", "LOCAL")
_OF_PARTITIONS: Final = frozenset({"COALESCE", "REORGANIZE", "ANALYZE", "CHECK", "OPTIMIZE", "REBUILD", "REPAIR"})
_UPKEEP: Final = (
    ("ENABLE", "KEYS"), ("DISABLE", "KEYS"), ("FORCE",), ("WITH", "VALIDATION"), ("WITHOUT", "VALIDATION"),
    ("SECONDARY_LOAD",), ("SECONDARY_UNLOAD",),
)  # fmt: skip


def specs_of(reader: Reader) -> tuple[ddl.Spec, ...]:
    """Read all clauses up to the end of the statement."""
    specs: list[ddl.Spec] = []
    while not reader.at_end():
        if not specs or reader.skip(",") or reader.peek() in ("PARTITION", "REMOVE"):
            specs += _spec(reader)
        else:
            raise Unreadable(f"{reader.token().text} is not understood")
    return tuple(specs)


def _spec(reader: Reader) -> tuple[ddl.Spec, ...]:
    start = reader.at
    for words in _UPKEEP:
        if reader.skip(*words):
            return (ddl.MaintenanceClause(" ".join(words)),)
    if reader.peek() in _OF_PARTITIONS and reader.peek(1) == "PARTITION":
        return (ddl.Repartition(reader.up_to()),)  # no other clause follows; a comma separates names
    match reader.word():
        case "ADD":
            return _add(reader)
        case "DROP":
            return (_drop(reader),)
        case "CHANGE" | "MODIFY" as how:
            reader.skip("COLUMN")
            if_exists = reader.skip("IF", "EXISTS")
            old = reader.identifier() if how == "CHANGE" else None
            made = column(reader)
            return (ddl.ChangeColumn(old or made.name, made, _place(reader), if_exists),)
        case "ALTER":
            return (_alter(reader),)
        case "RENAME":
            return (_rename(reader),)
        case "CONVERT":
            return (_convert(reader),)
        case "EXCHANGE":
            reader.expect("PARTITION")
            partition = reader.identifier()
            reader.expect("WITH", "TABLE")
            exchanged = ddl.ExchangePartition(partition, reader.table())
            _ = reader.skip("WITH", "VALIDATION") or reader.skip("WITHOUT", "VALIDATION")
            return (exchanged,)
        case "TRUNCATE":
            reader.expect("PARTITION")
            reader.skip_any(_LOCAL)
            return (ddl.TruncatePartitions(() if reader.skip("ALL") else _names(reader)),)
        case "ORDER" if reader.skip("BY"):
            reader.listed(lambda: _part_of_ordering(reader))
            return (ddl.MaintenanceClause(reader.code_from(start)),)
        case "DISCARD" | "IMPORT":
            return (ddl.SwapTablespace(_tablespace(reader, start)),)
        case "ALGORITHM" | "LOCK":
            reader.skip("=")
            reader.identifier()
            return (ddl.MaintenanceClause(reader.code_from(start)),)
        case "PARTITION" if reader.peek() == "BY":
            return (ddl.Repartition(f"PARTITION {reader.up_to()}"),)
        case "REMOVE" if reader.skip("PARTITIONING"):
            return (ddl.Repartition("REMOVE PARTITIONING"),)
    reader.at = start
    options = options_of(reader)
    if not options:
        raise Unreadable(f"{reader.token().text} is not understood")
    return (ddl.SetOptions(options),)


def _add(reader: Reader) -> tuple[ddl.Spec, ...]:
    if reader.peek() == "PARTITION" and (reader.peek(1) in ("(", "PARTITIONS", "IF") or reader.peek(1) in _LOCAL):
        return (ddl.Repartition(f"ADD {reader.up_to((',',))}"),)
    if begins_constraint(reader):
        return (ddl.AddConstraint(*constraint(reader)),)
    reader.skip("COLUMN")
    if_not_exists = reader.skip("IF", "NOT", "EXISTS")
    if reader.peek() == "(":
        elements = reader.in_parentheses(lambda: element_of(reader))
        return tuple(
            ddl.AddColumn(one, None, if_not_exists) if isinstance(one, ddl.ColumnDefinition) else ddl.AddConstraint(one)
            for one in elements
        )
    if reader.peek() in ("SYSTEM", "PERIOD") and reader.peek(1) in ("VERSIONING", "FOR"):
        raise Unreadable("system versioning is not supported")
    made = column(reader)
    return (ddl.AddColumn(made, _place(reader), if_not_exists),)


def _drop(reader: Reader) -> ddl.Spec:
    if reader.skip("PRIMARY", "KEY"):
        return ddl.DropKey("PRIMARY")
    if reader.skip_any(_KEY):
        if_exists = reader.skip("IF", "EXISTS")
        return ddl.DropKey(reader.identifier(), if_exists)
    if reader.skip("FOREIGN", "KEY"):
        if_exists = reader.skip("IF", "EXISTS")
        return ddl.DropForeignKey(reader.identifier(), if_exists)
    if reader.skip_any(("CONSTRAINT", "CHECK")):
        if_exists = reader.skip("IF", "EXISTS")
        return ddl.DropConstraint(reader.identifier(), if_exists)
    if reader.skip("PARTITION"):
        if_exists = reader.skip("IF", "EXISTS")
        return ddl.DropPartitions(_names(reader), if_exists)
    if reader.next_is("SYSTEM", "VERSIONING") or reader.next_is("PERIOD", "FOR"):
        raise Unreadable("system versioning is not supported")
    reader.skip("COLUMN")
    if_exists = reader.skip("IF", "EXISTS")
    name = reader.identifier()
    reader.skip_any(("RESTRICT", "CASCADE"))
    return ddl.DropColumn(name, if_exists)


def _alter(reader: Reader) -> ddl.Spec:
    if reader.skip_any(_KEY):
        reader.skip("IF", "EXISTS")
        return ddl.SetKeyVisibility(reader.identifier(), _hidden(reader))
    if reader.skip_any(("CHECK", "CONSTRAINT")):
        name = reader.identifier()
        enforced = not reader.skip("NOT")
        reader.expect("ENFORCED")
        return ddl.EnforceCheck(name, enforced)
    reader.skip("COLUMN")
    if_exists = reader.skip("IF", "EXISTS")
    name = reader.identifier()
    if reader.skip("DROP", "DEFAULT"):
        return ddl.SetDefault(name, None, if_exists)
    reader.expect("SET")
    if reader.skip("DEFAULT"):
        return ddl.SetDefault(name, default(reader), if_exists)
    return ddl.SetColumnVisibility(name, _hidden(reader))


def _hidden(reader: Reader) -> bool:
    """Read INVISIBLE or VISIBLE, or for keys in MariaDB IGNORED or NOT IGNORED."""
    if word := reader.skip_any(("INVISIBLE", "VISIBLE")):
        return word == "INVISIBLE"
    shown = reader.skip("NOT")
    reader.expect("IGNORED")
    return not shown


def _rename(reader: Reader) -> ddl.Spec:
    what = reader.skip_any(("COLUMN", *_KEY))
    if not what:
        reader.skip_any(("TO", "AS", "="))
        return ddl.RenameTo(reader.table())
    if_exists = reader.skip("IF", "EXISTS")
    old = reader.identifier()
    reader.expect("TO")
    return (ddl.RenameColumn if what == "COLUMN" else ddl.RenameKey)(old, reader.identifier(), if_exists)


def _convert(reader: Reader) -> ddl.Spec:
    if reader.skip("PARTITION"):
        partition = reader.identifier()
        reader.expect("TO", "TABLE")
        return ddl.PartitionToTable(partition, reader.table())
    if reader.skip("TABLE"):
        table = reader.table()
        reader.expect("TO", "PARTITION")
        return ddl.TableToPartition(table, reader.up_to((",",)))
    reader.expect("TO")
    if not reader.skip_charset():
        raise Unreadable("the target of CONVERT TO is not understood")
    charset = None if reader.skip("DEFAULT") else reader.value().lower()
    return ddl.ConvertCharset(charset, reader.value().lower() if reader.skip("COLLATE") else None)


def _place(reader: Reader) -> ddl.Place:
    if reader.skip("FIRST"):
        return ddl.First()
    return ddl.After(reader.identifier()) if reader.skip("AFTER") else None


def _names(reader: Reader) -> tuple[str, ...]:
    return reader.listed(reader.identifier)


def _part_of_ordering(reader: Reader) -> None:
    reader.identifier()
    while reader.skip("."):
        reader.identifier()
    reader.skip_any(("ASC", "DESC"))


def _tablespace(reader: Reader, start: int) -> str:
    if reader.skip("PARTITION"):
        _names(reader)
    reader.expect("TABLESPACE")
    return reader.code_from(start)
