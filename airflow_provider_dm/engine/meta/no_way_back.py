"""The metadata DB goes forward only."""

from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_dm.engine.errors import DmError


@dataclass(eq=False)
class NoWayBack(DmError):
    """Alembic was asked for an older schema. A lease's generation must never be forgotten: with a number that was
    given away before, a process that has lost its lease could write again."""

    revision: str

    code: ClassVar[str] = "DM-8012"
    what: ClassVar[str] = "revision {revision} of the metadata DB cannot be undone: leases would begin anew."
    hint: ClassVar[str] = "Restore a backup of the metadata DB together with the targets, or keep the newer release."
