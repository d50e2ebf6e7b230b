"""The binlog operators of one subtask (`dmctl binlog …`), as its loop reads and marks them.

The metadata DB keeps them (`meta/binlog_operators.py`), and `operator_selection` selects the one for a location. The
loop reads them at every DDL statement, and every BY_HAND_POLL_SECONDS for statements to be injected before rows.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.binlog.planned import DdlStatement
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import Statement
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.records import Operator
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.ddl.operator_selection import injection_at, next_injection, operator_for

log = logging.getLogger(__name__)

BY_HAND_POLL_SECONDS: Final = 2.0


@dataclass
class SubtaskOperators:
    """The binlog operators of one subtask. `known` is replaced atomically, as the planning thread reads it."""

    store: MetaStore
    task: str
    source: str
    known: tuple[Operator, ...] = ()
    looked_at: float = float("-inf")

    def at(self, ddl: DdlStatement) -> Operator | None:
        """Return the operator for a statement, and bind it to this location. Raises the store's errors."""
        self._read()
        operator = operator_for(self.known, ddl.at, ddl.sql, end=ddl.end)
        if operator is not None:
            self._use(operator, ddl.at)
        return operator

    def refresh(self) -> None:
        """Read the operators again after BY_HAND_POLL_SECONDS. An error of the metadata DB is logged only."""
        if time.monotonic() - self.looked_at < BY_HAND_POLL_SECONDS:
            return
        self.looked_at = time.monotonic()
        try:
            self._read()
        except DmError as error:
            log.warning("the binlog operators cannot be read: %s", error)

    def before_rows(self, here: Location) -> Operator | None:
        """Return the operator that injects statements before the rows at `here`. Raises the store's errors."""
        operator = injection_at(self.known, here)
        if operator is not None and operator.used_at is None:
            self._use(operator, here)
        return operator

    def next_place(self, lo: Location) -> Location | None:
        """Return the first location after `lo` with an injection, at which an epoch must end."""
        return next_injection(self.known, lo)

    def passed(self, applied: Location) -> None:
        """Mark the operators whose location is passed. After an error of the metadata DB the next call repeats it."""
        if not self.known:
            return
        try:
            for operator in self.store.mark_operators_passed(self.task, self.source, applied):
                if operator.used_at is None:
                    log.warning("binlog %s at %s was not used: the log has no such DDL", operator.kind, operator.place)
            self._read()
        except DmError as error:
            log.warning("the passed binlog operators were not reported to the metadata DB: %s", error)

    def _read(self) -> None:
        self.known = tuple(self.store.operators(self.task, self.source))
        self.looked_at = time.monotonic()

    def _use(self, operator: Operator, at: Location) -> None:
        self.store.mark_operator_used(operator, at)
        log.info("binlog %s at %s: %s", operator.kind, at, "; ".join(operator.statements) or "-")
        self._read()


def statements_of(operator: Operator) -> tuple[Statement, ...]:
    """Return the operator's parsed statements; they were checked when they were stored. Raises Unreadable."""
    return tuple(parse(sql, 0, "") for sql in operator.statements)
