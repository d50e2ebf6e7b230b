"""The pattern language of DM's rules: `~` and a regular expression, or wildcards.

A regular expression may match anywhere in the name, as in Go; `^` and `$` anchor it. Wildcards match the whole name:
`*` (any text, only as the last character), `?` (one character), `[a-z]` and `[!a-z]` (one character in, or not in, a
set). Patterns that DM's engine and Python's would interpret differently are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.config.errors import InvalidPattern
from airflow_provider_dm.engine.mysql.identifiers import TableName

_CLASS: Final = re.compile(r"\[(?P<not>!?)(?P<body>[^\]]+)\]")


@dataclass(frozen=True)
class Pattern:
    """A compiled pattern for schema or table names; without `case_sensitive` upper and lower case are equal."""

    text: str
    _matcher: re.Pattern[str]

    @classmethod
    def compile(cls, text: str, *, case_sensitive: bool) -> Pattern:
        """Compile `~` and a regular expression, or wildcards. Raises InvalidPattern."""
        source = _expression(text) if text.startswith("~") else _wildcards(text)
        flags = re.DOTALL if case_sensitive else re.DOTALL | re.IGNORECASE
        try:
            return cls(text, re.compile(source, flags))
        except re.error as error:
            raise InvalidPattern(text, f"it is not a regular expression ({error})") from None

    @property
    def is_name(self) -> bool:
        return is_name(self.text)

    def matches(self, name: str) -> bool:
        """Return True if the pattern matches a name.

        >>> Pattern.compile("t_?[0-9]*", case_sensitive=False).matches("T_x7_old")
        True
        """
        return self._matcher.search(name) is not None


@dataclass(frozen=True)
class TableMatcher:
    """A pattern of schemas, and one of their tables; without the latter it matches schemas and all their tables."""

    schema: Pattern
    table: Pattern | None

    @classmethod
    def compile(cls, schema: str, table: str, *, case_sensitive: bool) -> TableMatcher:
        """Compile both; `table` may be empty. Raises InvalidPattern."""
        ours = Pattern.compile(schema, case_sensitive=case_sensitive)
        return cls(ours, Pattern.compile(table, case_sensitive=case_sensitive) if table else None)

    def matches(self, name: TableName) -> bool:
        """Return True if the patterns match a table; a name without a table is a schema."""
        return self.schema.matches(name.schema) and (self.table is None or self.table.matches(name.table))

    def __str__(self) -> str:
        return f"{self.schema.text}.{self.table.text}" if self.table else self.schema.text


def is_name(text: str) -> bool:
    """Return True if a text is a plain name instead of a pattern."""
    return not text.startswith("~") and not set(text) & set("*?[")


def _expression(text: str) -> str:
    expression = text[1:]
    if not expression:
        raise InvalidPattern(text, "nothing follows the ~")
    if "[[:" in expression:
        raise InvalidPattern(text, "write [a-z] and the like instead of a [[:class:]]")
    return expression


def _wildcards(text: str) -> str:
    """Return the regular expression that matches the same whole names."""
    parts = []
    index = 0
    while index < len(text):
        match text[index]:
            case "*" if index == len(text) - 1:
                parts.append(".*")
            case "*":
                raise InvalidPattern(text, "* may only be the last character; use a ~ regular expression")
            case "?":
                parts.append(".")
            case "[" if "]" in text[index:]:  # otherwise it is a plain character, as in DM
                match = _CLASS.match(text, index)
                if match is None:
                    raise InvalidPattern(text, "[] matches nothing")
                parts.append(_character_class(text, match))
                index = match.end() - 1
            case character:
                parts.append(re.escape(character))
        index += 1
    return rf"\A{''.join(parts)}\Z"


def _character_class(text: str, match: re.Match[str]) -> str:
    body = match["body"]
    for low, high in re.findall(r"(.)-(.)", body):
        if low > high:
            raise InvalidPattern(text, f"the range {low}-{high} is empty")
    escaped = re.sub(r"([\\\^\[&~|])", r"\\\1", body)
    return f"[{'^' if match['not'] else ''}{escaped}]"
