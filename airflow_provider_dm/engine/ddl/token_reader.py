"""A reader over the tokens of a statement, which are made on demand.

Every method that consumes a token raises Unreadable if the text is not as expected. A reader skips only tokens that
its caller names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice
from typing import TypeVar

from airflow_provider_dm.engine.ddl.errors import AnotherStatement, Unreadable
from airflow_provider_dm.engine.ddl.lexer import Token, TokenKind, string_value, tokens
from airflow_provider_dm.engine.ddl.statements import Code
from airflow_provider_dm.engine.mysql.identifiers import TableName

T = TypeVar("T")


class Reader:
    """A position in a statement. `schema`: the default schema."""

    def __init__(self, sql: str, sql_mode: int, schema: str) -> None:
        self.sql_mode = sql_mode
        self._sql = sql
        self._schema = schema
        self.home = schema
        """The schema of the statement's table: the default for tables in REFERENCES."""
        self._coming = tokens(sql, sql_mode)
        self._broken: Unreadable | None = None
        self._tokens: list[Token] = []
        self.at = 0
        """The number of tokens consumed."""

    def _has(self, count: int) -> bool:
        """Return True if at least this many tokens follow. Raises Unreadable."""
        wanted = self.at + count
        if len(self._tokens) >= wanted:
            return True
        try:
            self._tokens.extend(islice(self._coming, wanted - len(self._tokens)))  # keeps the tokens before an error
        except Unreadable as error:
            self._broken = error
        if len(self._tokens) >= wanted:
            return True
        if self._broken is not None:
            raise self._broken  # raised at every call: such a text has no end
        return False

    def token(self, ahead: int = 0) -> Token:
        """Return a token without consuming it. Raises Unreadable at the end."""
        if not self._has(ahead + 1):
            raise Unreadable("it ends too early")
        return self._tokens[self.at + ahead]

    def peek(self, ahead: int = 0) -> str:
        return self._tokens[self.at + ahead].text if self._has(ahead + 1) else ""

    def next_is(self, *words: str) -> bool:
        if not self._has(len(words)) or self._tokens[self.at].text != words[0]:
            return False
        return all(self._tokens[at].text == word for at, word in enumerate(words[1:], self.at + 1))

    def word(self) -> str:
        """Consume the next token and return its text; "" at the end."""
        text = self.peek()
        self.at += bool(text)
        return text

    def skip(self, *words: str) -> bool:
        """Consume these words if they follow, and return True if they do."""
        found = self.next_is(*words)
        self.at += len(words) * found
        return found

    def skip_any(self, words: Collection[str]) -> str:
        """Consume the next word if it is one of these, and return it; otherwise return ""."""
        return self.word() if self.peek() in words else ""

    def skip_charset(self) -> bool:
        """Consume CHARACTER SET, in any of its spellings."""
        return self.skip("CHARACTER", "SET") or self.skip("CHAR", "SET") or self.skip("CHARSET")

    def expect(self, *words: str) -> None:
        if not self.skip(*words):
            raise Unreadable(f"the text lacks {' '.join(words)}")

    def at_end(self) -> bool:
        """Return True at the end of the statement. Raises AnotherStatement."""
        if self.peek() != ";":
            return not self.peek()
        at = self.at
        while self.skip(";"):
            pass
        ended, self.at = not self.peek(), at
        if not ended:
            raise AnotherStatement("another statement follows")
        return True

    def end(self) -> None:
        if not self.at_end():
            raise Unreadable(f"{self.token().text} is not understood")

    # Tokens as values

    def name(self) -> str | None:
        """Return the next token as an identifier, without consuming it; None if it is not an identifier."""
        return self._tokens[self.at].name if self._has(1) else None

    def identifier(self) -> str:
        name = self.name()
        if name is None:
            raise Unreadable("a name is expected")
        self.at += 1
        return name

    def table(self, schema: str | None = None) -> TableName:
        """Read a table's name; without a schema it is in `schema` or the default schema."""
        first = self.identifier()
        if self.skip("."):
            return TableName(first, self.identifier())
        if not (schema or self._schema):
            raise Unreadable("a table has no schema")
        return TableName(schema or self._schema, first)

    def schema(self) -> str:
        """Return the default schema, for a statement that names none."""
        if not self._schema:
            raise Unreadable("it has no default schema")
        return self._schema

    def number(self) -> int:
        token = self.token()
        if token.kind is not TokenKind.NUMBER or not token.raw.isdecimal():
            raise Unreadable(f"{token.text} is not a number")
        self.at += 1
        return int(token.raw)

    def string(self) -> str:
        token = self.token()
        if token.kind is not TokenKind.STRING:
            raise Unreadable(f"{token.text} is not a string")
        self.at += 1
        return string_value(token.raw, self.sql_mode)

    def value(self) -> str:
        """Read the value of an option: a word, a number, or a string without its quotes."""
        if self.token().kind is TokenKind.STRING:
            return self.string()
        if self.token().kind is TokenKind.SIGN:
            raise Unreadable(f"{self.token().text} is not a value")
        self.at += 1
        return self._tokens[self.at - 1].name or self._tokens[self.at - 1].raw

    def in_parentheses(self, one: Callable[[], T]) -> tuple[T, ...]:
        """Read a list in parentheses; return the result of `one` for each item."""
        self.expect("(")
        found = self.listed(one)
        self.expect(")")
        return found

    def listed(self, one: Callable[[], T]) -> tuple[T, ...]:
        """Read a list; return the result of `one` for each item."""
        found = [one()]
        while self.skip(","):
            found.append(one())
        return tuple(found)

    # Source text

    def code_from(self, start: int) -> Code:
        """Return the source text from token number `start` to the last consumed token."""
        return self._sql[self._tokens[start].start : self._tokens[self.at - 1].end] if self.at > start else ""

    def balanced(self) -> Code:
        """Consume an expression in parentheses and return its text."""
        start, depth = self.at, 0
        while True:
            text = self.token().text
            depth += {"(": 1, ")": -1}.get(text, 0)
            if text == ";" or (self.at == start and not depth):
                raise Unreadable("an expression is not in parentheses")
            self.at += 1
            if not depth:
                return self.code_from(start)

    def up_to(self, stops: Collection[str] = ()) -> Code:
        """Consume and return the text up to one of these words outside of parentheses, or to the end."""
        start = self.at
        while not self.at_end() and self.peek() not in stops:
            if self.peek() == ")":
                raise Unreadable("a parenthesis was never opened")
            if self.peek() == "(":
                self.balanced()
            else:
                self.at += 1
        return self.code_from(start)
