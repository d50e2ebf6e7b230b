"""The input of a reader of a round: plain values without connections.

A job may run twice, even at the same time: dm_copy_chunk decides which page is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_dm.engine.downstream.contested_row import RowOwner
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.row_statements import Verb
from airflow_provider_dm.engine.merge.owner_writer import MOST_WHILE_COPYING, OwnerWriter, TargetAccess
from airflow_provider_dm.engine.rules.mapping import TableMapping


@dataclass(frozen=True)
class ChunkJob:
    """One chunk to copy in a round. `chunk`: its recorded state, with the round and the table's birth.

    `siblings`: other source tables with the same target, for messages.
    """

    fence: Fence
    chunk: ChunkProgress
    mapping: TableMapping
    verb: Verb
    siblings: tuple[str, ...]
    is_alone: bool
    """True if no other source table has the same target."""

    @property
    def is_merged(self) -> bool:
        """True if rows that collide with rows of other source tables wait. Otherwise they are errors, or overwrite."""
        return bool(self.siblings) and self.verb is Verb.INSERT and self.mapping.target.identity is not None

    def writer(self, access: TargetAccess) -> OwnerWriter:
        """Return the writer of this table's rows in a merged target."""
        return OwnerWriter(RowOwner(self.fence.ref, self.mapping.source.name), self.mapping, access, MOST_WHILE_COPYING)
