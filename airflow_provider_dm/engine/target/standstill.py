"""A moment at which no source of a task writes: for a transaction that acts on what rows of other sources are.

Every transaction of a subtask begins with a statement about its row of dm_subtask or rows of dm_frontier, and reads
what it goes by behind that. So whoever holds all of these has waited for those that were under way, and those that
come later see what it has done. Sources that are loading write behind dm_copy_chunk: they are not held up.

Who waits for one of these rows holds others already, and one of them may be held by a driver that hangs, or is stopped,
in the middle of a transaction: the server keeps that open for hours. So it waits for a second only, and is tried again
after a rest that is far longer. Where transactions take longer than that, and always one is under way, it would never
come about: each time that it has not, both are doubled, up to a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import pymysql

from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.error_numbers import LOCK_WAIT
from airflow_provider_dm.engine.target.errors import TargetBusy
from airflow_provider_dm.engine.target.identity import SubtaskRef

SHORTEST_SECONDS: Final = 1
"""The least that all servers take for innodb_lock_wait_timeout."""
LONGEST_SECONDS: Final = 8
RESTS: Final = 10
"""How much longer it rests than it has waited."""

_TIMEOUTS: Final = ("innodb_lock_wait_timeout", "lock_wait_timeout")
"""The second one, for the locks of tables, is a day or a year where nobody has set it."""


class NoStandstill(DmError):
    """Somebody has not let go of what the transaction needs. Rolls it back."""

    seconds: int

    code = "DM-6064"
    scope = Scope.DOWNSTREAM
    what = "a lock that stands all sources of a task still was not given within {seconds} s."
    hint = "Nothing was written; it is tried again. Look for long transactions on the target."


@dataclass
class Patience:
    """How long one driver waits for a standstill, and when it may. Times are those of any clock that goes forward."""

    seconds: int = SHORTEST_SECONDS
    _rests_until: float | None = None

    def is_resting(self, now: float) -> bool:
        return self._rests_until is not None and now < self._rests_until

    def was_in_vain(self, now: float) -> None:
        self._rests_until = now + RESTS * self.seconds
        self.seconds = min(2 * self.seconds, LONGEST_SECONDS)

    def has_paid(self) -> None:
        self.seconds, self._rests_until = SHORTEST_SECONDS, None


@contextmanager
def standstill(connection: Connection, ref: SubtaskRef, seconds: int) -> Iterator[None]:
    """Hold all sources of the task up, first in a transaction, to its end. Within the block no lock is waited for
    longer than so many seconds, also not those of rows and tables that others hold: all sources wait meanwhile.

    Raises NoStandstill.
    """
    try:
        query(connection, f"SET {', '.join(f'@dm_{name} = @@SESSION.{name}' for name in _TIMEOUTS)}")
        query(connection, f"SET SESSION {', '.join(f'{name} = {seconds}' for name in _TIMEOUTS)}")
        _hold_up_all(connection, ref)
        yield
    except (pymysql.err.Error, TargetBusy) as error:
        if error.args[:1] == (LOCK_WAIT,) or (isinstance(error, TargetBusy) and error.number == LOCK_WAIT):
            raise NoStandstill(seconds) from error
        raise
    finally:
        with suppress(pymysql.err.Error, OSError):  # of no use any more
            query(connection, f"SET SESSION {', '.join(f'{name} = @dm_{name}' for name in _TIMEOUTS)}")


def _hold_up_all(connection: Connection, ref: SubtaskRef) -> None:
    """Lock the subtasks of all sources of the task, and their frontiers with all lanes.

    In the order in which all of their own transactions do, so that two who do so wait for each other.
    """
    for table, order in (("dm_subtask", "source"), ("dm_frontier", "source, bucket")):
        query(
            connection,
            f"SELECT generation FROM {ref.table(table)} WHERE task = %s ORDER BY {order} FOR UPDATE",
            (ref.task,),
        )
