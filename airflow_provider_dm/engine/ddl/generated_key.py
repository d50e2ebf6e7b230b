"""The primary key that MySQL generates for a table without one (sql_generate_invisible_primary_key).

MySQL logs it as if the statement had defined it. One rule is not logged: the key's column stays before all others.

    t (my_row_id INVISIBLE, a):  ADD b int FIRST  ─▶  my_row_id, b, a
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.server import Server

_COLUMN: Final = "my_row_id"


def behind_generated_key(server: Server, table: ddl.TableDefinition, specs: Sequence[ddl.Spec]) -> tuple[ddl.Spec, ...]:
    """Return the clauses, FIRST replaced by AFTER the generated key's column, if the table keeps a generated key."""
    if not server.can.generates_keys or not _is_generated(table) or any(map(_drops_it, specs)):
        return tuple(specs)
    return tuple(
        replace(spec, place=ddl.After(_COLUMN))
        if isinstance(spec, ddl.AddColumn | ddl.ChangeColumn) and isinstance(spec.place, ddl.First)
        else spec
        for spec in specs
    )


def _is_generated(table: ddl.TableDefinition) -> bool:
    first = table.columns[0]
    attributes = (first.type.name, first.type.unsigned, first.auto_increment, first.invisible)
    keys = (key for key in table.constraints if isinstance(key, ddl.KeyDefinition) and key.kind is ddl.KeyKind.PRIMARY)
    over_it_alone = any(key.parts == (ddl.KeyPart(_COLUMN),) for key in keys)
    return first.name == _COLUMN and attributes == ("bigint", True, True, True) and over_it_alone


def _drops_it(spec: ddl.Spec) -> bool:
    return isinstance(spec, ddl.DropColumn) and spec.name.lower() == _COLUMN
