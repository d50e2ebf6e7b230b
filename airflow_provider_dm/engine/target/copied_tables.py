"""dm_copied_table: the tables of a full load as they were when their copy began, and where one was copied again.

A table that is altered while it is copied is copied again, from a later place of the log on. Rows and DDL up to that
place are in its copy, whatever its name was meanwhile. A name that is here with such a place and has no row in
dm_table_schema is that of a table which was gone there.

    birth        what tells that it was altered since (`reading.births`); "" while it is about to be copied again, and a
                 `Leave` while it is so in a merged table that others go on to fill; BY_LOG while its log is applied
                 (copy/by_log.py)
    copied_again `Location.sort_key`; "" for a table that was not copied again
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.mysql.connection import Connection, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.target.identity import SubtaskRef
from airflow_provider_dm.engine.target.meta_rows import OF_TABLE, MetaRows, name_of

_ROWS: Final = MetaRows("dm_copied_table")
_NAME: Final = "table_schema, table_name"
_LEAVING: Final = "leaving"
_AWAY: Final = "away"
_ALIKE: Final = "alike"
BY_LOG: Final = "by log"


@dataclass(frozen=True)
class Leave:
    """The birth of a table that leaves a merged table, or has left it (copy/visiting.py).

    `str` and `of` are each other's inverse.
    """

    away: bool
    """It has no rows there any more and feeds it no more; False: they are being removed."""
    alike: bool
    """The target's table was as it is created after this one."""

    def __str__(self) -> str:
        return f"{_AWAY if self.away else _LEAVING} {_ALIKE if self.alike else 'unlike'}"

    @classmethod
    def of(cls, birth: str) -> Leave | None:
        """Read it back; None for any other birth.

        >>> str(Leave.of("away alike")), Leave.of("3f 9 99 server 0")
        ('away alike', None)
        """
        stage, _, how = birth.partition(" ")
        return cls(stage == _AWAY, how == _ALIKE) if stage in (_LEAVING, _AWAY) else None


@dataclass(frozen=True)
class CopiedTable:
    """One row."""

    birth: str
    copied_again: str = ""

    @property
    def leave(self) -> Leave | None:
        return Leave.of(self.birth)


def load_copied_tables(connection: Connection, ref: SubtaskRef) -> dict[TableName, CopiedTable]:
    """Return what is known, by name. Raises AnswerCut."""
    rows = _ROWS.read(connection, ref, f"{_NAME}, birth, copied_again", tail=f"ORDER BY {_NAME}")
    return {name_of(schema, table): CopiedTable(text(birth), text(again)) for schema, table, birth, again in rows}


def load_copied_again(connection: Connection, ref: SubtaskRef) -> dict[TableName, str]:
    """Return the tables that were copied again, or were gone then, and the places. Raises AnswerCut."""
    found = load_copied_tables(connection, ref)
    return {name: one.copied_again for name, one in found.items() if one.copied_again}


def begin_copied_tables(connection: Connection, ref: SubtaskRef, births: Mapping[TableName, str]) -> None:
    """Replace all that is known, in the transaction that begins the subtask."""
    _ROWS.delete(connection, ref)
    put_copied_tables(connection, ref, {name: CopiedTable(birth) for name, birth in births.items()})


def put_copied_tables(connection: Connection, ref: SubtaskRef, tables: Mapping[TableName, CopiedTable]) -> None:
    """Write these, new ones and known ones, in a transaction that has checked the generation."""
    rows = [(*name, one.birth, one.copied_again) for name, one in tables.items()]
    _ROWS.put(connection, ref, f"{_NAME}, birth, copied_again", rows)


def doubt_copied_tables(connection: Connection, ref: SubtaskRef, names: Iterable[TableName]) -> None:
    """Note, in a transaction that has checked the generation, that these are about to be copied again."""
    _set_births(connection, ref, dict.fromkeys(names, ""))


def note_leaves(connection: Connection, ref: SubtaskRef, leaves: Mapping[TableName, Leave]) -> None:
    """Note, in a transaction that has checked the generation, that these leave a merged table, or have left it."""
    _set_births(connection, ref, {name: str(leave) for name, leave in leaves.items()})


def are_away(ref: SubtaskRef) -> str:
    """Return the SELECT of (source, table_schema, table_name) of a task's tables that have left a merged table.

    The task is its argument.
    """
    table = ref.table(_ROWS.table)
    return f"SELECT source, {_NAME} FROM {table} WHERE task = %s AND birth LIKE '{_AWAY} %%'"


def _set_births(connection: Connection, ref: SubtaskRef, births: Mapping[TableName, str]) -> None:
    for name, birth in births.items():
        _ROWS.update(connection, ref, "birth = %s", (birth,), OF_TABLE, name)
