"""The identity of a writer: a subtask (one source of one task), and the generation under which it may write.

Both are passed as one value from the claim to the last statement. How a generation is claimed, and why it only grows:
claim.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider_dm.engine.downstream.errors import Fenced, TargetWentBack
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.identifiers import TableName


@dataclass(frozen=True)
class SubtaskRef:
    """The name of a subtask, and of the schema in the target that holds its state.

    `lane`: a name that separates rows of dm_frontier and dm_ddl from those of the subtask itself, under the same fence:
    for the re-sync of a merged table's rows, or the DDL of a merged table, which all sources share.
    """

    meta_schema: str
    task: str
    source: str
    lane: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The values of the columns (task, source)."""
        return self.task, self.source

    @property
    def lane_key(self) -> tuple[str, str]:
        """The values of the columns (task, source) in dm_frontier and dm_ddl."""
        return self.task, self.lane or self.source

    def in_lane(self, lane: str) -> SubtaskRef:
        """Return the same subtask with its own lane of frontier and journal."""
        return replace(self, lane=lane)

    def of_source(self, source: str) -> SubtaskRef:
        """Return the subtask of another source of this task."""
        return replace(self, source=source)

    def table(self, name: str) -> str:
        """Return the quoted name of a table of the meta-schema."""
        return TableName(self.meta_schema, name).quoted()


@dataclass(frozen=True)
class Fence:
    """A subtask and the generation under which it was claimed."""

    ref: SubtaskRef
    generation: int

    def in_lane(self, lane: str) -> Fence:
        """Return the same fence for a lane."""
        return replace(self, ref=self.ref.in_lane(lane))

    def check(self, connection: Connection) -> None:
        """Lock the subtask and check its generation, first in a transaction that touches neither frontier nor chunks.

        It locks one row for the whole subtask, so such transactions run one after another: not for the data path.
        Raises Fenced or TargetWentBack.
        """
        rows = query(
            connection,
            f"SELECT generation FROM {self.ref.table('dm_subtask')} WHERE task = %s AND source = %s FOR UPDATE",
            self.ref.key,
        )
        found = int(rows[0][0]) if rows else 0
        if found != self.generation:
            raise self.refused(found)

    def refused(self, found: int) -> DmError:
        """Return the error for this generation. `found`: the generation in the target, 0: none."""
        if found > self.generation:
            return Fenced(*self.ref.key, self.generation, found)
        return TargetWentBack(
            *self.ref.key, f"generation {found}" if found else "no row of it", f"generation {self.generation}"
        )
