"""What is prepared at the source where its sync stands: kept in memory, and in the target before it is relied on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from airflow_provider_dm.engine.binlog.planned import Epoch
from airflow_provider_dm.engine.binlog.xa import Prepared, oldest_place
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.target.frontier import Transactions
from airflow_provider_dm.engine.target.identity import Fence
from airflow_provider_dm.engine.target.prepared_xa import forget_ended, note_prepared


@dataclass
class PreparedHere:
    """The XA transactions that are prepared at the place where all buckets stand. Mutable."""

    transactions: Transactions
    fence: Fence
    now: tuple[Prepared, ...]
    _noted: str = field(default="", init=False)
    """The end of the epoch for which the target knows what it changes."""

    def note(self, epoch: Epoch) -> None:
        """Let the target know what the epoch prepares and ends, before any of it is applied.

        Raises Fenced, TargetWentBack.
        """
        began, ended = self._changes(epoch)
        if not (began or ended) or self._noted == epoch.hi.sort_key:
            return
        hi = epoch.hi.sort_key
        self.transactions(lambda connection: note_prepared(connection, self.fence, began=began, ended=ended, hi=hi))
        self._noted = hi

    def applied(self, epoch: Epoch) -> None:
        """Go on behind the epoch, which is applied in all buckets. Raises Fenced, TargetWentBack."""
        _, ended = self._changes(epoch)
        self.now = after(self.now, epoch)
        if ended:
            self.transactions(lambda connection: forget_ended(connection, self.fence, epoch.hi.sort_key))

    def needed(self, applied: Location) -> Location:
        """Return from where on the log is needed by whoever stands at `applied`."""
        return oldest_place(applied, self.now)

    def _changes(self, epoch: Epoch) -> tuple[Sequence[Prepared], Sequence[Prepared]]:
        behind = after(self.now, epoch)
        began = [one for one in behind if one not in self.now]
        return began, [one for one in self.now if one not in behind]


def after(prepared: tuple[Prepared, ...], epoch: Epoch) -> tuple[Prepared, ...]:
    """Return what is prepared behind an epoch, in front of which `prepared` is."""
    return prepared if epoch.prepared is None else epoch.prepared
