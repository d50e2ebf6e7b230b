"""How a comparison of rows can end but for equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_dm.engine.errors import DmError, Scope


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
