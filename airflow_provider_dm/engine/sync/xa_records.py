"""Records of the XA transactions that an epoch prepares and ends, kept in the target."""

from __future__ import annotations

from airflow_provider_dm.engine.binlog.planned import Epoch
from airflow_provider_dm.engine.downstream.frontier import Transactions
from airflow_provider_dm.engine.downstream.prepared_xa import forget_ended, note_prepared
from airflow_provider_dm.engine.sync.loop_state import LoopState, prepared_after


def note_xa(transactions: Transactions, state: LoopState, epoch: Epoch) -> None:
    """Record in the target which XA transactions the epoch prepares and ends, before any of its rows are applied.

    Raises Fenced, TargetWentBack.
    """
    behind = prepared_after(state.prepared, epoch)
    began = [transaction for transaction in behind if transaction not in state.prepared]
    ended = [transaction for transaction in state.prepared if transaction not in behind]
    if began or ended:
        hi = epoch.hi.sort_key
        transactions(lambda connection: note_prepared(connection, state.fence, began=began, ended=ended, hi=hi))


def forget_xa(transactions: Transactions, state: LoopState, epoch: Epoch) -> None:
    """Delete the records of XA transactions that the epoch has ended, once all buckets have applied it.

    `state`: the state before the epoch.

    Raises Fenced, TargetWentBack.
    """
    behind = prepared_after(state.prepared, epoch)
    if any(transaction not in behind for transaction in state.prepared):
        transactions(lambda connection: forget_ended(connection, state.fence, epoch.hi.sort_key))
