"""The choice of the row changes to replicate, by the binlog event filter and by expression filters.

An expression filter ignores a change for which its expression is true: for the new row of an INSERT, the old row of a
DELETE, and for an UPDATE the old row and the new row, or both if both expressions are given. A filter that names a
missing column ignores nothing, as in DM: the column may be added later.

The effect of an ignored change never reaches the target, so the target may differ from what the log implies: a row may
still exist although its DELETE was ignored, or be missing because its INSERT was. The filter's `FilterLoss` states
which of these are possible; it decides how changes are folded and written (`sync.write`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

import pymysql

from airflow_provider_dm.engine.config.rule_models import ExpressionFilter
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.errors import ExpressionNotSupported, StoppedByFilter, UnknownColumn
from airflow_provider_dm.engine.rules.event_filter import ROW_EVENTS, EventAction, EventFilter, RowEvent
from airflow_provider_dm.engine.rules.expressions.compiled import compiled
from airflow_provider_dm.engine.rules.expressions.expression_session import ExpressionSession
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.collation_weights import read_weights
from airflow_provider_dm.engine.schema.model import Table

log = logging.getLogger(__name__)


_NO_SUCH_COLLATION: Final = frozenset({1253, 1273})
"""The server lacks a collation, or the collation does not belong to the charset."""


class FilterLoss(IntEnum):
    """The rows that a filter may ignore, from none to any."""

    NOTHING = 0
    DELETES = 1
    """Every existing row is written; deleted rows may remain."""
    ROWS = 2
    """A change may be about a row that was never written."""


@dataclass(frozen=True)
class RowFilter:
    """The filter of one source table: verdicts by event type, and expressions. Picklable.

    `updates`: (expression of the old row, of the new row), one of which may be empty.
    """

    table: Table = field(repr=False)
    verdicts: tuple[tuple[RowEvent, EventAction], ...] = ()
    """The verdicts other than DO."""
    inserts: tuple[str, ...] = ()
    updates: tuple[tuple[str, str], ...] = ()
    deletes: tuple[str, ...] = ()
    keeps_rows: bool = False
    """DDL that removes rows may be ignored."""
    session: ExpressionSession = field(default=ExpressionSession(), repr=False)
    """The session in which the expressions are evaluated."""

    @property
    def loss(self) -> FilterLoss:
        ignored = {event for event, verdict in self.verdicts if verdict is EventAction.IGNORE}
        if self.inserts or self.updates or ignored & {"insert", "update"}:
            return FilterLoss.ROWS
        fewer = self.deletes or self.keeps_rows or "delete" in ignored
        return FilterLoss.DELETES if fewer else FilterLoss.NOTHING

    def columns(self) -> frozenset[int]:
        """Return the positions of the columns in the expressions."""
        texts = [*self.inserts, *self.deletes, *(text for pair in self.updates for text in pair if text)]
        return frozenset(column for text in texts for column in compiled(text, self.table, self.session).columns)

    def keeper(self) -> Callable[[Row | None, Row | None], bool]:
        """Return a function that is True if a change is replicated. It raises StoppedByFilter, ExpressionOutOfRange."""
        verdicts = dict(self.verdicts)
        inserts, deletes = (list(map(self._test, texts)) for texts in (self.inserts, self.deletes))
        updates = [(self._test(old), self._test(new)) for old, new in self.updates]

        def keeps(before: Row | None, after: Row | None) -> bool:
            event: RowEvent = "insert" if before is None else "delete" if after is None else "update"
            verdict = verdicts.get(event)
            if verdict is EventAction.ERROR:
                raise StoppedByFilter(
                    f"the log has a change of {self.table.name} with the filter action Error: {event}.",
                    "Nothing of this part of the log was written. Change the rule's action to Ignore or Do (`filters` "
                    "of the task or of its source), or leave the table out by block-allow-list, and start the task "
                    "again.",
                )
            if verdict is EventAction.IGNORE:
                return False
            if before is None:
                return after is None or not any(test(after) for test in inserts)
            if after is None:
                return not any(test(before) for test in deletes)
            return not any(old(before) and new(after) for old, new in updates)

        return keeps

    def _test(self, text: str) -> Callable[[Row], bool]:
        return compiled(text, self.table, self.session).is_true if text else lambda _row: True


@dataclass(frozen=True)
class ExpressionFilters:
    """The expression filters of a task. `zone`: its `timezone`. `source`: the server from which weights of collations
    are read; None: expressions are only checked."""

    filters: tuple[ExpressionFilter, ...] = ()
    case_sensitive: bool = False
    zone: str = ""
    source: Endpoint | None = None

    def of(self, table: TableName) -> Iterable[ExpressionFilter]:
        for filter_ in self.filters:
            named, name = (filter_.schema_name, filter_.table), tuple(table)
            if named == name or (not self.case_sensitive and _folded(named) == _folded(name)):
                yield filter_

    def session(self, collations: Collection[str]) -> ExpressionSession:
        """Return the source's session with the weights of these collations. Raises errors of the connection."""
        if not collations or self.source is None:
            return ExpressionSession(self.zone)
        with connected(self.source) as connection:
            return ExpressionSession(self.zone, read_weights(connection, str(self.source), collations))


NO_EXPRESSIONS: Final = ExpressionFilters()


def _folded(names: Iterable[str]) -> list[str]:
    return [name.casefold() for name in names]


def row_filter(events: EventFilter, expressions: ExpressionFilters, table: Table) -> RowFilter | None:
    """Return the filter of a source table; None if every change is replicated. Raises ExpressionNotSupported, and
    errors of the connection to the source."""
    verdicts = ((event, events.of_rows(table.name, event)) for event in ROW_EVENTS)
    session = ExpressionSession(expressions.zone)
    known = [rule for rule in expressions.of(table.name) if _is_known(rule, table, session)]
    collations = {name for rule in known for text in _texts(rule) for name in compiled(text, table, session).collations}
    found = RowFilter(
        table,
        tuple((event, verdict) for event, verdict in verdicts if verdict is not EventAction.DO),
        tuple(rule.insert_value_expr for rule in known if rule.insert_value_expr),
        tuple(
            (rule.update_old_value_expr, rule.update_new_value_expr)
            for rule in known
            if rule.update_old_value_expr or rule.update_new_value_expr
        ),
        tuple(rule.delete_value_expr for rule in known if rule.delete_value_expr),
        events.may_keep_rows(table.name),
    )
    if found == RowFilter(table):
        return None
    try:
        return replace(found, session=expressions.session(collations))
    except pymysql.err.MySQLError as error:
        if error.args[0] not in _NO_SUCH_COLLATION:
            raise
        texts = " and ".join(text for rule in known for text in _texts(rule))
        raise ExpressionNotSupported(
            texts, str(table.name), f"the source returned an error: {error.args[1]}"
        ) from error


def _texts(rule: ExpressionFilter) -> Iterator[str]:
    return filter(
        None, (rule.insert_value_expr, rule.update_old_value_expr, rule.update_new_value_expr, rule.delete_value_expr)
    )


def _is_known(rule: ExpressionFilter, table: Table, session: ExpressionSession) -> bool:
    """Return True if the table has all columns of a filter's expressions. Raises ExpressionNotSupported."""
    try:
        for text in _texts(rule):
            compiled(text, table, session)
    except UnknownColumn as error:
        log.warning("an expression filter of %s has no effect: the table has no column %s", table.name, error)
        return False
    return True
