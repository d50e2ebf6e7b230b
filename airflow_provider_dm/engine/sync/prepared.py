"""Records of the XA transactions that an epoch prepares and ends, kept in the target."""

from __future__ import annotations

from airflow_provider_dm.engine.binlog.planned import Epoch
from airflow_provider_dm.engine.downstream.frontier import Transactions
from airflow_provider_dm.engine.downstream.prepared_xa import forget_ended, note_prepared
from airflow_provider_dm.engine.sync.standing import Standing, after


def note_xa(transactions: Transactions, standing: Standing, epoch: Epoch) -> None:
    """Record in the target which XA transactions the epoch prepares and ends, before any of its rows are applied.

    Raises Fenced, TargetWentBack.
    """
    behind = after(standing.prepared, epoch)
    began = [one for one in behind if one not in standing.prepared]
    ended = [one for one in standing.prepared if one not in behind]
    if began or ended:
        hi = epoch.hi.sort_key
        transactions(lambda connection: note_prepared(connection, standing.fence, began=began, ended=ended, hi=hi))


def forget_xa(transactions: Transactions, standing: Standing, epoch: Epoch) -> None:
    """Delete the records of XA transactions that the epoch has ended, once all buckets have applied it.

    `standing`: the state before the epoch.

    Raises Fenced, TargetWentBack.
    """
    behind = after(standing.prepared, epoch)
    if any(one not in behind for one in standing.prepared):
        transactions(lambda connection: forget_ended(connection, standing.fence, epoch.hi.sort_key))
