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
    named: list[ForeignKey] = []
    taken = [str(key.constraint) for key in old]
    for key in (*old, *new):
        given = key.constraint or (key.name if server.mariadb else None)
        name = given or _next(f"{table.table}{_FOREIGN_KEY}", taken)
        taken.append(name)
        actions = tuple(action for action in key.references.actions if _is_kept(server, *action))
        named.append(replace(key, constraint=name, name=None, references=replace(key.references, actions=actions)))
    return _in_order(named)


def _is_kept(server: Server, when: str, what: str) -> bool:
    """Return True if the server keeps the action: it is neither the default nor ignored by the server."""
    return when != "MATCH" and what not in _NO_ACTIONS and not (server.mariadb and what == "SET DEFAULT")


def named_checks(
    server: Server, table: TableName, old: Iterable[CheckConstraint], new: Sequence[CheckConstraint]
) -> tuple[CheckConstraint, ...]:
    """Return all CHECK constraints, named; MySQL sorts them by their names."""
    named = list(old)
    taken = [str(check.constraint) for check in (*named, *new) if check.constraint is not None]
    for check in new:
        free = _free(_MARIADB_CHECK, taken) if server.mariadb else _next(f"{table.table}{_CHECK}", taken)
        name = check.constraint or free
        taken.append(name)
        named.append(replace(check, constraint=name))
    return tuple(named) if server.mariadb else _in_order(named)


def with_table_name(server: Server, definition: TableDefinition, old: TableName, new: TableName) -> TableDefinition:
    """Return the definition with the generated names changed to the table's new name."""
    constraints = [
        one if isinstance(one, KeyDefinition) else replace(one, constraint=name_under(str(one.constraint), old, new))
        for one in definition.constraints
    ]
    keys = [constraint for constraint in constraints if isinstance(constraint, KeyDefinition)]
    foreign_keys = _in_order(constraint for constraint in constraints if isinstance(constraint, ForeignKey))
    checks = [constraint for constraint in constraints if isinstance(constraint, CheckConstraint)]
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
            replace(constraint, references=_with_new_names(constraint.references, renamed, columns))
            if isinstance(constraint, ForeignKey) and constraint.references.table == table
            else constraint
            for constraint in definition.constraints
        ),
    )


def _with_new_names(reference: Reference, table: TableName, columns: Mapping[str, str]) -> Reference:
    names = tuple(columns.get(name.lower(), name) for name in reference.columns)
    return replace(reference, table=table, columns=names)


def _in_order(constraints: Iterable[_Named]) -> tuple[_Named, ...]:
    return tuple(sorted(constraints, key=lambda constraint: str(constraint.constraint)))


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
