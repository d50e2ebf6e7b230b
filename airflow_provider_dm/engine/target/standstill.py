"""A moment at which no source of a task writes: for a transaction that acts on what rows of other sources are.

Every transaction of a subtask begins with a statement about its row of dm_subtask or rows of dm_frontier, and reads
what it goes by behind that. So whoever holds all of these has waited for those that were under way, and those that
come later see what it has done. Sources that are loading write behind dm_copy_chunk: they are not held up.
"""

from __future__ import annotations

from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.target.identity import SubtaskRef


def hold_up_all(connection: Connection, ref: SubtaskRef) -> None:
    """Lock, first in a transaction, the subtasks of all sources of the task, and their frontiers with all lanes.

    In the order in which all of their own transactions do, so that two who do so wait for each other.
    """
    for table, order in (("dm_subtask", "source"), ("dm_frontier", "source, bucket")):
        query(
            connection,
            f"SELECT generation FROM {ref.table(table)} WHERE task = %s ORDER BY {order} FOR UPDATE",
            (ref.task,),
        )
