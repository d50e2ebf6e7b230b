"""How a comparison of rows can end but for equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_dm.engine.errors import DmError, Reaction, Scope


@dataclass(eq=False)
class DataDiffers(DmError):
    """Tables whose rows are not those of their sources. Which rows stands in the result, not here."""

    tables: tuple[str, ...]
    """`schema.table (rows in sources / rows in target)`."""

    code: ClassVar[str] = "DM-7201"
    scope: ClassVar[Scope] = Scope.DOWNSTREAM
    what: ClassVar[str] = "the target differs from its sources in: {tables}."
    hint: ClassVar[str] = "If nobody wrote meanwhile and all changes had arrived, see the run's result for the rows."


@dataclass(eq=False)
class TargetTableMissing(DmError):
    """A target table that is not there: there is nothing to compare with."""

    target: str

    code: ClassVar[str] = "DM-7202"
    scope: ClassVar[Scope] = Scope.DOWNSTREAM
    what: ClassVar[str] = "the target table {target} does not exist."
    hint: ClassVar[str] = "Run the full migration first."


@dataclass(eq=False)
class SourceAltered(DmError):
    """A table was altered or dropped while it was compared, again and again."""

    reason: str

    code: ClassVar[str] = "DM-7203"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    reaction: ClassVar[Reaction] = Reaction.RETRY
    what: ClassVar[str] = "tables were altered while they were compared: {reason}"
    hint: ClassVar[str] = "Compare again when no DDL is under way and the sync has caught up."


@dataclass(eq=False)
class RowsHeldBack(DmError):
    """Merged tables that cannot be compared, as rows of theirs wait for a DDL that not all shards have made."""

    tables: tuple[str, ...]
    """`schema.table (DDL lock)`."""

    code: ClassVar[str] = "DM-7204"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = (
        "rows are held back by DDL locks, and these tables are not compared: {tables}. No other differs."
    )
    hint: ClassVar[str] = (
        "See `dmctl shard-ddl-lock TASK` for the shards that are waited for; compare again behind that."
    )
