"""What travels to an executor to copy one chunk, and what comes back: plain values, no password, no connection.

A job can be run by anybody, again, or by two at once; dm_copy_chunk decides whose page counts. It works until the chunk
is done or `until` has come; the driver hands out what is left in the next round, so a stop waits for one page at most.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_dm.engine.merge.writer import MOST_WHILE_COPYING, Access, OwnerWriter
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.target.copy_progress import ChunkProgress
from airflow_provider_dm.engine.target.identity import Fence
from airflow_provider_dm.engine.target.row_owner import RowOwner
from airflow_provider_dm.engine.target.statements import Verb


@dataclass(frozen=True)
class ChunkJob:
    """One chunk to copy. `siblings`: other source tables that are merged into the same target, for messages."""

    fence: Fence
    chunk: ChunkProgress
    """As the driver saw it; where it is now is asked of the target."""
    mapping: TableMapping
    verb: Verb
    suffix: int
    """The suffix of the relay sub-directory that this source's locations lie in."""
    until: float
    """Unix time in seconds; at least one page is copied. Clocks that disagree cost rounds, not rows."""
    siblings: tuple[str, ...] = ()
    first_of_key: bool = False
    """A REPLACE that must not meet its own identity key (`writing.check_absent`)."""
    number: int = 0
    """The table's number in dm_row_owner: the target is merged, and its rows are written by the law of `merge`."""
    server_uuid: str = ""
    """The server in whose log this source's locations are; "" where no log is read."""
    birth: str = ""
    """The birth of the table that rows are read of, and of no other that has its name (by_log.py); "": nobody asks."""

    def writer(self, access: Access) -> OwnerWriter:
        """Return what writes the rows of this table into a merged target."""
        owner = RowOwner(self.fence.ref, self.mapping.source.name, self.number)
        return OwnerWriter(owner, self.mapping, access, MOST_WHILE_COPYING)


@dataclass(frozen=True)
class ChunkResult:
    """The chunk's progress, and what this job did for it."""

    source: str
    progress: ChunkProgress
    rows: int
    seconds: float
    blocked_seconds: float = 0.0
    """The longest time that a lock of this job blocked writers of the source."""
