"""A statement's tokens from left to right, made as they are asked for.

Everything that takes a token raises Unreadable where the text is not as expected: a reader never skips what it was not
told to skip.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice
from typing import TypeVar

from airflow_provider_dm.engine.ddl.lexer import Token, TokenKind, Unreadable, string_value, tokens
from airflow_provider_dm.engine.ddl.statements import Code
from airflow_provider_dm.engine.mysql.identifiers import TableName

T = TypeVar("T")


class AnotherStatement(Unreadable):
    """A statement behind the one that is read: of the text as a whole nothing is certain."""


class Reader:
    """The statement, and the place in it. `schema`: the default one."""

    def __init__(self, sql: str, sql_mode: int, schema: str) -> None:
        self.sql_mode = sql_mode
        self._sql = sql
        self._schema = schema
        self.home = schema
        """The schema of the table that the statement is about: what REFERENCES names without one is there."""
        self._coming = tokens(sql, sql_mode)
        self._broken: Unreadable | None = None
        self._tokens: list[Token] = []
        self.at = 0
        """The number of tokens that are passed."""

    def _has(self, count: int) -> bool:
        """Tell whether there are as many tokens from the place on. Raises Unreadable."""
        wanted = self.at + count
        if len(self._tokens) >= wanted:
            return True
        try:
            self._tokens.extend(islice(self._coming, wanted - len(self._tokens)))  # also those in front of an error
        except Unreadable as error:
            self._broken = error
        if len(self._tokens) >= wanted:
            return True
        if self._broken is not None:
            raise self._broken  # each time anew: a text that cannot be cut has no end
        return False

    def token(self, ahead: int = 0) -> Token:
        """Return a token without passing it. Raises Unreadable at the end."""
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
        """Return the next token's text and pass it; "" at the end."""
        text = self.peek()
        self.at += bool(text)
        return text

    def skip(self, *words: str) -> bool:
        """Pass these words in a row, if they are next."""
        found = self.next_is(*words)
        self.at += len(words) * found
        return found

    def skip_any(self, words: Collection[str]) -> str:
        """Pass the next word if it is one of these, and return it; else return ""."""
        return self.word() if self.peek() in words else ""

    def skip_charset(self) -> bool:
        """Pass CHARACTER SET, however it is said."""
        return self.skip("CHARACTER", "SET") or self.skip("CHAR", "SET") or self.skip("CHARSET")

    def expect(self, *words: str) -> None:
        if not self.skip(*words):
            raise Unreadable(f"there is no {' '.join(words)}")

    def at_end(self) -> bool:
        """Tell whether nothing follows. Raises AnotherStatement."""
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

    # What tokens stand for

    def name(self) -> str | None:
        """Return the next token as an identifier, without passing it; None where it is none."""
        return self._tokens[self.at].name if self._has(1) else None

    def identifier(self) -> str:
        name = self.name()
        if name is None:
            raise Unreadable("a name is not where one is expected")
        self.at += 1
        return name

    def table(self, schema: str | None = None) -> TableName:
        """Return a table; where it names no schema, it is in the default one or in `schema`."""
        first = self.identifier()
        if self.skip("."):
            return TableName(first, self.identifier())
        if not (schema or self._schema):
            raise Unreadable("a table has no schema")
        return TableName(schema or self._schema, first)

    def schema(self) -> str:
        """Return the default schema, which the statement is about without naming it."""
        if not self._schema:
            raise Unreadable("there is no schema")
        return self._schema

    def number(self) -> int:
        token = self.token()
        if token.kind is not TokenKind.NUMBER or not token.raw.isdecimal():
            raise Unreadable(f"{token.text} is no number")
        self.at += 1
        return int(token.raw)

    def string(self) -> str:
        token = self.token()
        if token.kind is not TokenKind.STRING:
            raise Unreadable(f"{token.text} is no string")
        self.at += 1
        return string_value(token.raw, self.sql_mode)

    def value(self) -> str:
        """Return what an option is set to: a word, a number or a string without its quotes."""
        if self.token().kind is TokenKind.STRING:
            return self.string()
        if self.token().kind is TokenKind.SIGN:
            raise Unreadable(f"{self.token().text} is no value")
        self.at += 1
        return self._tokens[self.at - 1].name or self._tokens[self.at - 1].raw

    def in_parentheses(self, one: Callable[[], T]) -> tuple[T, ...]:
        """Return what `one` makes of each item of a list in parentheses."""
        self.expect("(")
        found = self.listed(one)
        self.expect(")")
        return found

    def listed(self, one: Callable[[], T]) -> tuple[T, ...]:
        """Return what `one` makes of each item of a list."""
        found = [one()]
        while self.skip(","):
            found.append(one())
        return tuple(found)

    # Text as it is written

    def code_from(self, start: int) -> Code:
        """Return the text from the token number `start` to the one just passed."""
        return self._sql[self._tokens[start].start : self._tokens[self.at - 1].end] if self.at > start else ""

    def balanced(self) -> Code:
        """Pass an expression in parentheses and return it."""
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
        """Pass what follows, up to one of these words outside of parentheses or to the end, and return it."""
        start = self.at
        while not self.at_end() and self.peek() not in stops:
            if self.peek() == ")":
                raise Unreadable("a parenthesis was never opened")
            if self.peek() == "(":
                self.balanced()
            else:
                self.at += 1
        return self.code_from(start)
