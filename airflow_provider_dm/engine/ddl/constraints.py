"""Names of foreign keys and CHECK constraints: the server generates a name for those without one.

    t: FOREIGN KEY (a) REFERENCES u (id)  ─▶  CONSTRAINT t_ibfk_1 FOREIGN KEY (a) …
    t: CHECK (a > 0)                      ─▶  CONSTRAINT t_chk_1 CHECK (a > 0), in MariaDB CONSTRAINT_1

Names that the server generated change with the table's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.statements import (
    CheckConstraint,
    ForeignKey,
    KeyDefinition,
    Reference,
    TableDefinition,
)
from airflow_provider_dm.engine.mysql.identifiers import TableName

_FOREIGN_KEY: Final = "_ibfk_"
_CHECK: Final = "_chk_"
_Named = TypeVar("_Named", ForeignKey, CheckConstraint)
_NO_ACTIONS: Final = frozenset({"RESTRICT", "NO ACTION"})
_MARIADB_CHECK: Final = "CONSTRAINT_"


def named_foreign_keys(
    server: Server, table: TableName, old: Sequence[ForeignKey], new: Sequence[ForeignKey]
) -> tuple[ForeignKey, ...]:
    """Return all foreign keys, named and sorted by name. MariaDB uses the name of the index if there is no other."""
    found: list[ForeignKey] = []
    taken = [str(one.constraint) for one in old]
    for one in (*old, *new):
        given = one.constraint or (one.name if server.mariadb else None)
        name = given or _next(f"{table.table}{_FOREIGN_KEY}", taken)
        taken.append(name)
        actions = tuple(action for action in one.references.actions if _is_kept(server, *action))
        found.append(replace(one, constraint=name, name=None, references=replace(one.references, actions=actions)))
    return _in_order(found)


def _is_kept(server: Server, when: str, what: str) -> bool:
    """Return True if the server keeps the action: it is neither the default nor ignored by the server."""
    return when != "MATCH" and what not in _NO_ACTIONS and not (server.mariadb and what == "SET DEFAULT")


def named_checks(
    server: Server, table: TableName, old: Iterable[CheckConstraint], new: Sequence[CheckConstraint]
) -> tuple[CheckConstraint, ...]:
    """Return all CHECK constraints, named; MySQL sorts them by their names."""
    found = list(old)
    taken = [str(one.constraint) for one in (*found, *new) if one.constraint is not None]
    for one in new:
        free = _free(_MARIADB_CHECK, taken) if server.mariadb else _next(f"{table.table}{_CHECK}", taken)
        name = one.constraint or free
        taken.append(name)
        found.append(replace(one, constraint=name))
    return tuple(found) if server.mariadb else _in_order(found)


def with_table_name(server: Server, definition: TableDefinition, old: TableName, new: TableName) -> TableDefinition:
    """Return the definition with the generated names changed to the table's new name."""
    constraints = [
        one if isinstance(one, KeyDefinition) else replace(one, constraint=name_under(str(one.constraint), old, new))
        for one in definition.constraints
    ]
    keys = [one for one in constraints if isinstance(one, KeyDefinition)]
    foreign_keys = _in_order(one for one in constraints if isinstance(one, ForeignKey))
    checks = [one for one in constraints if isinstance(one, CheckConstraint)]
    return replace(definition, constraints=(*keys, *foreign_keys, *(checks if server.mariadb else _in_order(checks))))


def with_references(
    definition: TableDefinition, table: TableName, renamed: TableName, columns: Mapping[str, str]
) -> TableDefinition:
    """Return the definition with its foreign keys adapted to the new names of a parent table and its columns.

    `columns`: the new column names of the parent, by the old names in lower case.
    """
    return replace(
        definition,
        constraints=tuple(
            replace(one, references=_with_new_names(one.references, renamed, columns))
            if isinstance(one, ForeignKey) and one.references.table == table
            else one
            for one in definition.constraints
        ),
    )


def _with_new_names(reference: Reference, table: TableName, columns: Mapping[str, str]) -> Reference:
    names = tuple(columns.get(name.lower(), name) for name in reference.columns)
    return replace(reference, table=table, columns=names)


def _in_order(constraints: Iterable[_Named]) -> tuple[_Named, ...]:
    return tuple(sorted(constraints, key=lambda one: str(one.constraint)))


def name_under(name: str, old: TableName, new: TableName) -> str:
    """Return a constraint's name under the table's new name: a generated name contains the table's name.

    >>> name_under("orders_1_ibfk_2", TableName("a", "orders_1"), TableName("b", "orders"))
    'orders_ibfk_2'
    """
    for middle in (_FOREIGN_KEY, _CHECK):
        number = name.removeprefix(f"{old.table}{middle}")
        if number != name and number.isdecimal():
            return f"{new.table}{middle}{number}"
    return name


def _next(prefix: str, taken: Iterable[str]) -> str:
    """Return the prefix with the number after the highest one."""
    numbers = [int(rest) for name in taken if (rest := name.removeprefix(prefix)) != name and rest.isdecimal()]
    return f"{prefix}{max(numbers, default=0) + 1}"


def _free(prefix: str, taken: Sequence[str]) -> str:
    """Return the prefix with the lowest free number."""
    lower = {name.lower() for name in taken}
    return next(name for number in range(1, 10_000) if (name := f"{prefix}{number}").lower() not in lower)
