"""Which changes of a table's rows count: the binlog event filter, as far as it is about rows, and expression filters.

An expression filter takes a change away for which its expression is true: of the new row of an INSERT, the old one of
a DELETE, and of an UPDATE the old and the new one, both if both are given. One that names a column that the table does
not have takes nothing away, as in DM: the column may come, or come back.

A change that does not count never reaches the target, and what the target has is then no longer what the log says it
was: a row may still be there whose DELETE was left out, or may not be there, as its INSERT was. How much of that can
happen is the filter's `Loss`; whoever folds and writes changes goes by it (`sync.write.compactor`,
`sync.write.causality`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

import pymysql

from airflow_provider_dm.engine.config.rule_models import ExpressionFilter
from airflow_provider_dm.engine.errors import DmError, NotSupportedYet, Scope
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.event_filter import EventFilter, RowEvent, Verdict
from airflow_provider_dm.engine.rules.expressions.compiled import ExpressionNotSupported, compiled
from airflow_provider_dm.engine.rules.expressions.parts import UnknownColumn
from airflow_provider_dm.engine.rules.expressions.session import Session
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.collation_weights import read_weights
from airflow_provider_dm.engine.schema.model import Table

log = logging.getLogger(__name__)


_NO_SUCH_COLLATION: Final = frozenset({1253, 1273})
"""The server does not have a collation, or not for the charset."""


class RowsRefused(DmError):
    table: str
    event: str

    code = "DM-6055"
    scope = Scope.UPSTREAM
    what = "the log has a change of {table} that the filters of the task call an error: {event}."
    hint = (
        "Nothing of this piece of the log was written. Let the rule say Ignore or Do (`filters` of the task or of its "
        "source), or leave the table out by block-allow-list, and start the task again."
    )


class Loss(IntEnum):
    """Rows that a filter may take away, from none to any."""

    NOTHING = 0
    DELETES = 1
    """Every row that there is comes; rows that are gone may stay."""
    ROWS = 2
    """A change may be about a row that never came."""


@dataclass(frozen=True)
class RowFilter:
    """The verdicts on changes of one source table, and the expressions that take some of them away. Picklable.

    `updates`: (old, new), of which one may be empty.
    """

    table: Table = field(repr=False)
    verdicts: tuple[tuple[RowEvent, Verdict], ...] = ()
    """Those that are not DO."""
    inserts: tuple[str, ...] = ()
    updates: tuple[tuple[str, str], ...] = ()
    deletes: tuple[str, ...] = ()
    keeps_rows: bool = False
    """DDL that takes rows away may be left out."""
    session: Session = field(default=Session(), repr=False)
    """Where the expressions are evaluated."""

    @property
    def loss(self) -> Loss:
        ignored = {event for event, verdict in self.verdicts if verdict is Verdict.IGNORE}
        if self.inserts or self.updates or ignored & {"insert", "update"}:
            return Loss.ROWS
        fewer = self.deletes or self.keeps_rows or "delete" in ignored
        return Loss.DELETES if fewer else Loss.NOTHING

    def columns(self) -> frozenset[int]:
        """Return the positions of the columns that the expressions need."""
        texts = [*self.inserts, *self.deletes, *(text for pair in self.updates for text in pair if text)]
        return frozenset(column for text in texts for column in compiled(text, self.table, self.session).columns)

    def keeper(self) -> Callable[[Row | None, Row | None], bool]:
        """Return the function that tells whether a change counts, and raises RowsRefused and ExpressionOutOfRange."""
        verdicts = dict(self.verdicts)
        inserts, deletes = (list(map(self._test, texts)) for texts in (self.inserts, self.deletes))
        updates = [(self._test(old), self._test(new)) for old, new in self.updates]

        def keeps(before: Row | None, after: Row | None) -> bool:
            event: RowEvent = "insert" if before is None else "delete" if after is None else "update"
            verdict = verdicts.get(event)
            if verdict is Verdict.ERROR:
                raise RowsRefused(str(self.table.name), event)
            if verdict is Verdict.IGNORE:
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
    """The expression filters of a task. `zone`: its `timezone`. `source`: the server that is asked how it compares
    text; None: nothing is asked, and expressions are only checked."""

    filters: tuple[ExpressionFilter, ...] = ()
    case_sensitive: bool = False
    zone: str = ""
    source: Endpoint | None = None

    def of(self, table: Table) -> Iterable[ExpressionFilter]:
        for one in self.filters:
            named, name = (one.schema_name, one.table), tuple(table.name)
            if named == name or (not self.case_sensitive and _folded(named) == _folded(name)):
                yield one

    def session(self, collations: Collection[str]) -> Session:
        """Return the session of the source, with the weights of these collations. Raises what connecting raises."""
        if not collations or self.source is None:
            return Session(self.zone)
        with connected(self.source) as connection:
            return Session(self.zone, read_weights(connection, str(self.source), collations))


NO_EXPRESSIONS: Final = ExpressionFilters()


def _folded(names: Iterable[str]) -> list[str]:
    return [name.casefold() for name in names]


def row_filter(events: EventFilter, expressions: ExpressionFilters, table: Table) -> RowFilter | None:
    """Return the filter of a source table; None where every change counts. Raises
    ExpressionNotSupported, and what connecting to the source raises."""
    kinds: tuple[RowEvent, ...] = ("insert", "update", "delete")
    verdicts = ((event, events.of_rows(table.name, event)) for event in kinds)
    session = Session(expressions.zone)
    known = [one for one in expressions.of(table) if _is_known(one, table, session)]
    collations = {name for one in known for text in _texts(one) for name in compiled(text, table, session).collations}
    found = RowFilter(
        table,
        tuple((event, verdict) for event, verdict in verdicts if verdict is not Verdict.DO),
        tuple(one.insert_value_expr for one in known if one.insert_value_expr),
        tuple(
            (one.update_old_value_expr, one.update_new_value_expr)
            for one in known
            if one.update_old_value_expr or one.update_new_value_expr
        ),
        tuple(one.delete_value_expr for one in known if one.delete_value_expr),
        events.may_keep_rows(table.name),
    )
    if found == RowFilter(table):
        return None
    try:
        return replace(found, session=expressions.session(collations))
    except pymysql.err.MySQLError as error:
        if error.args[0] not in _NO_SUCH_COLLATION:
            raise
        texts = " and ".join(text for one in known for text in _texts(one))
        raise ExpressionNotSupported(texts, str(table.name), f"the source answers {error.args[1]}") from error


def check_merged(found: RowFilter | None, target: TableName) -> None:
    """Refuse a filter by which the rows of one owner of a merged table could be taken for another's.

    No way without a record of every row that was left out is exact. The filter left out a's INSERT of (1, 'x'), and b
    inserted (1, 'x'); or a inserted it, and b did not. The target is the same both times, and so is a's next change of
    the row, its old image included: the first time it must not touch the target, the second time it must.
    """
    if found is not None and found.loss is Loss.ROWS:
        raise NotSupportedYet(
            "a filter that leaves out INSERTs or UPDATEs of a merged table",
            f"{found.table.name}, which goes to {target}",
            "Leave out only deletes, or whole tables by block-allow-list. Or set the loader's on-duplicate-logical to "
            "replace, without safe-mode: true, if rows are meant to overwrite each other.",
        )


def _texts(one: ExpressionFilter) -> Iterator[str]:
    return filter(
        None, (one.insert_value_expr, one.update_old_value_expr, one.update_new_value_expr, one.delete_value_expr)
    )


def _is_known(one: ExpressionFilter, table: Table, session: Session) -> bool:
    """Tell whether the table has all the columns of a filter's expressions. Raises ExpressionNotSupported."""
    try:
        for text in _texts(one):
            compiled(text, table, session)
    except UnknownColumn as error:
        log.warning("an expression filter of %s takes nothing away: there is no column %s", table.name, error)
        return False
    return True
