"""The errors of tables, types and values."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import UpstreamError


class TableNotFound(UpstreamError):
    table: str

    code = "DM-5002"
    what = "the table {table} does not exist, or the account has no privilege on it."
    hint = "Check its name and the SELECT privilege; views and sequences are not replicated."


class UnsupportedColumnType(UpstreamError):
    table: str
    column: str
    type: str
    remedy: str = "Leave the table out by block-allow-list, or change the column's type at the source."

    code = "DM-5101"
    what = "column `{column}` of {table} has the type {type}, which is not supported yet."
    hint = "{remedy}"


class UnknownCharacter(UpstreamError):
    """A value holds a character whose equivalent in UTF-8, in which the target stores text, is not known."""

    column: str
    charset: str

    code = "DM-5104"
    what = "a value of {column} holds bytes that are not a character of {charset}, or an unknown character."
    hint = (
        "The target stores text as UTF-8. Correct the value at the source (`SELECT … WHERE column <> CONVERT(CONVERT("
        "column USING utf8mb4) USING {charset})` finds many), or leave the table out by block-allow-list."
    )


class CharacterWithoutWeight(Exception):
    """A character whose weight was not read."""


class MalformedValue(ValueError):
    """Bytes or a type that no server writes; the caller knows their location and raises the user-facing error."""
