"""The compiler of expressions: it determines types first, and evaluates values for a row as the server does.

Every part of an expression has a type that follows from its columns and constants, and the types decide how values are
compared and computed. A combination of types whose exact rules are not known is refused at compile time
(ExpressionNotSupported), so nothing is guessed for a row. Only a result that does not fit its type is detected for a
row: the server would stop with an error, and so does the task (ExpressionOutOfRange).

    whole numbers   Python integers, checked against the range of BIGINT after each step
    decimals        Python's Decimal, exact: products with too many digits are refused
    doubles         the processor's
    text            `text`
    moments         texts in one format, whose order is the order in time

NULL is None, and booleans have three values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.errors import (
    ExpressionNotSupported,
    ExpressionOutOfRange,
    OutOfRange,
    Refused,
    UnknownColumn,
)
from airflow_provider_dm.engine.rules.expressions import syntax
from airflow_provider_dm.engine.rules.expressions.arithmetic import arithmetic, negative, signs_differ
from airflow_provider_dm.engine.rules.expressions.columns import constant_part, type_of
from airflow_provider_dm.engine.rules.expressions.comparisons import (
    among,
    between,
    boolean,
    comparison,
    like,
    logical,
    truth_of,
)
from airflow_provider_dm.engine.rules.expressions.expression_session import ExpressionSession
from airflow_provider_dm.engine.rules.expressions.functions import call, choice
from airflow_provider_dm.engine.rules.expressions.parts import Part, Read, Text
from airflow_provider_dm.engine.rules.expressions.syntax import Tree, read_expression
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.collation_weights import is_compared_by_weights
from airflow_provider_dm.engine.schema.errors import CharacterWithoutWeight
from airflow_provider_dm.engine.schema.model import Table

_NO_SESSION: Final = ExpressionSession()


@dataclass(frozen=True)
class Expression:
    """A compiled expression. `columns`: the positions of its columns; `collations`: its collations that compare by
    weights."""

    text: str
    table: TableName
    columns: frozenset[int]
    collations: frozenset[str]
    truth: Read

    def is_true(self, row: Row) -> bool:
        """Return True if the value for a row is true, not NULL. Raises ExpressionOutOfRange."""
        try:
            return self.truth(row) is True
        except (OutOfRange, CharacterWithoutWeight):
            raise ExpressionOutOfRange(self.text, str(self.table)) from None


@lru_cache(maxsize=1024)
def compiled(text: str, table: Table, session: ExpressionSession = _NO_SESSION) -> Expression:
    """Compile an expression over the rows of a table. Raises ExpressionNotSupported, UnknownColumn."""
    try:
        compiler = _Compiler(table, session)
        truth = truth_of(compiler.part(read_expression(text)))
        return Expression(text, table.name, frozenset(compiler.columns), frozenset(compiler.collations), truth)
    except (Unreadable, Refused, RecursionError) as error:
        raise ExpressionNotSupported(text, str(table.name), str(error)) from None


class _Compiler:
    def __init__(self, table: Table, session: ExpressionSession) -> None:
        self.table = table
        self.session = session
        self.columns: set[int] = set()
        self.collations: set[str] = set()

    def part(self, tree: Tree) -> Part:
        match tree:
            case syntax.Constant(kind, text):
                return constant_part(kind, text)
            case syntax.ColumnRef(name):
                return self._column(name, None)
            case syntax.Collated(syntax.ColumnRef(name), collation):
                return self._column(name, collation)
            case syntax.Collated():
                raise Refused("COLLATE follows something other than a column")
            case syntax.Negative(operand):
                return negative(self.part(operand))
            case syntax.Arithmetic(sign, left, right):
                return arithmetic(sign, self.part(left), self.part(right))
            case syntax.Comparison(sign, left, right):
                return boolean(comparison(sign, self.part(left), self.part(right)))
            case syntax.Is(operand, "NULL"):
                read = self.part(operand).read
                return boolean(lambda row: read(row) is None)
            case syntax.Is(operand, what):
                truth, wanted = truth_of(self.part(operand)), what == "TRUE"
                return boolean(lambda row: truth(row) is wanted)
            case syntax.In(operand, items):
                return boolean(among(self.part(operand), [self.part(item) for item in items]))
            case syntax.Between(operand, low, high):
                return boolean(between(self.part(operand), self.part(low), self.part(high)))
            case syntax.Like(operand, pattern):
                return boolean(like(self.part(operand), self.part(pattern)))
            case syntax.Not(operand):
                truth = truth_of(self.part(operand))
                return boolean(lambda row: None if (found := truth(row)) is None else not found)
            case syntax.Call(name, arguments):
                return call(name, [self.part(argument) for argument in arguments])
            case syntax.Case(operand, branches, otherwise):
                return self._case(operand, branches, self.part(otherwise))
            case syntax.Logical(sign, left, right):
                return boolean(logical(sign, truth_of(self.part(left)), truth_of(self.part(right))))

    def _case(self, operand: Tree | None, branches: Sequence[tuple[Tree, Tree]], otherwise: Part) -> Part:
        parts = [(self.part(test), self.part(result)) for test, result in branches]
        if operand is None:
            return choice([(truth_of(test), result) for test, result in parts], otherwise)
        asked = self.part(operand)
        if any(signs_differ(asked, test) for test, _ in parts):
            raise Refused("CASE compares a signed number with an unsigned one")
        return choice([(comparison("=", asked, test), result) for test, result in parts], otherwise)

    def _column(self, name: str, collation: str | None) -> Part:
        try:
            column = self.table.column(name)
        except KeyError:
            raise UnknownColumn(name) from None
        self.columns.add(column.position)
        kind, convert = type_of(self.table.name, column, collation, self.session)
        if isinstance(kind, Text) and is_compared_by_weights(kind.collation.name):
            self.collations.add(kind.collation.name)
        at = column.position

        def read(row: Row) -> Any:
            value = row[at]
            return None if value is None else convert(value)

        return Part(kind, read)
