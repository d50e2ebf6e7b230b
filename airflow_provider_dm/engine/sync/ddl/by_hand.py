"""What a person wants done at places of the log (`dmctl binlog …`), as the loop of one source asks for it.

The metadata DB keeps it (`meta/operators.py`), `operators.py` says what is meant for which place, and here is when the
loop looks: at every DDL statement, and now and then for places in front of which statements are to be executed.
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
from airflow_provider_dm.engine.meta.model import Operator
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.ddl.operators import injection_at, next_injection, operator_for

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0


@dataclass
class ByHand:
    """The binlog operators of one subtask. `known` is replaced as a whole: a plan is made ahead by another thread."""

    store: MetaStore
    task: str
    source: str
    known: tuple[Operator, ...] = ()
    looked_at: float = float("-inf")

    def at(self, ddl: DdlStatement) -> Operator | None:
        """Return what is wanted at a statement, bound to its place from now on. Raises what the store raises."""
        self._look()
        found = operator_for(self.known, ddl.at, ddl.sql, end=ddl.end)
        if found is not None:
            self._use(found, ddl.at)
        return found

    def refresh(self) -> None:
        """Look now and then for places to come. What a metadata DB does not say is looked for another time."""
        if time.monotonic() - self.looked_at < LOOK_SECONDS:
            return
        self.looked_at = time.monotonic()
        try:
            self._look()
        except DmError as error:
            log.warning("whether something is to be done by hand is not known: %s", error)

    def before_rows(self, here: Location) -> Operator | None:
        """Return what is to be executed in front of the rows that begin here. Raises what the store raises."""
        found = injection_at(self.known, here)
        if found is not None and found.used_at is None:
            self._use(found, here)
        return found

    def next_place(self, lo: Location) -> Location | None:
        """Return the place behind `lo` where an epoch has to end, as something is to be executed there."""
        return next_injection(self.known, lo)

    def passed(self, applied: Location) -> None:
        """Record the location up to which the target is applied. An unreachable metadata DB gets it another time."""
        if not self.known:
            return
        try:
            for one in self.store.mark_operators_passed(self.task, self.source, applied):
                if one.used_at is None:
                    log.warning("binlog %s at %s met nothing: there is no such DDL", one.kind, one.place)
            self._look()
        except DmError as error:
            log.warning("the metadata DB does not know which binlog operators are done: %s", error)

    def _look(self) -> None:
        self.known = tuple(self.store.operators(self.task, self.source))
        self.looked_at = time.monotonic()

    def _use(self, operator: Operator, at: Location) -> None:
        self.store.mark_operator_used(operator, at)
        log.info("binlog %s at %s: %s", operator.kind, at, "; ".join(operator.statements) or "-")
        self._look()


def statements_of(operator: Operator) -> tuple[Statement, ...]:
    """Return the statements that a person gave, which were read once before they were stored. Raises Unreadable."""
    return tuple(parse(sql, 0, "") for sql in operator.statements)
