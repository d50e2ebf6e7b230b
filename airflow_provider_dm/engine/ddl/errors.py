"""The errors of parsing, tracking and copying statements. Most of them only carry a reason to the caller, which knows
the location and raises the error for users.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_dm.engine.ddl.parse import AffectedTables
from airflow_provider_dm.engine.errors import DownstreamError


class CannotCreateTarget(DownstreamError):
    """The source's table has a feature that the target's table cannot be created with."""

    source: str
    target: str
    found: str

    code = "DM-7010"
    what = "the target table {target} does not exist and cannot be created like {source}, which has {found}."
    hint = (
        "Create it by hand, with the same columns and keys, then start again; or leave the table out by "
        "block-allow-list, as you must if the target lacks a type of its columns. Nothing was changed."
    )


class NotCopyable(Exception):
    """Something that a target's table cannot be created with; the argument names it."""


class Unreadable(Exception):
    """A text that cannot be parsed with certainty; the argument is the reason."""


class NotRead(Unreadable):
    """A statement that could not be read to its end. `about`: the certain part."""

    def __init__(self, why: str, about: AffectedTables) -> None:
        super().__init__(why, about)
        self.about = about

    def __str__(self) -> str:
        return str(self.args[0])


class AnotherStatement(Unreadable):
    """A second statement follows in the text, so nothing about the text is certain."""


class CannotTrack(Exception):
    """A table's definition is uncertain; the argument is the reason."""


class NotKnown(CannotTrack):
    """A statement about a table, column or key that is not known."""


class NotWritten(Exception):
    """A statement of a kind that is not supported here; the argument names it."""
