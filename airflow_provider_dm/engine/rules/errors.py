"""The errors of the rules of a task, and of the expressions in them."""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.errors import DescribedError, DmError, DownstreamError, Scope, UpstreamError

UNTIL_RESOLVED: Final = (
    "let the sync continue until `dmctl query-status TASK` shows no `unresolvedGroups`, and make the change then."
)


class RulesChanged(DescribedError):
    """The rules of a task changed in a way by which it cannot continue."""

    code = "DM-6042"


class StoppedByFilter(DescribedError):
    """A filter with the action Error matches a change in the log."""

    code = "DM-6055"
    scope = Scope.UPSTREAM


class TargetTableMismatch(DownstreamError):
    source: str
    target: str
    missing: tuple[str, ...]
    """Columns, with type, that only the source has."""
    extra: tuple[str, ...]
    """Columns, with type, that only the target has and does not fill by itself."""
    different: tuple[str, ...]
    """Columns of both tables, with both types and the reason."""
    source_columns: tuple[str, ...]
    target_columns: tuple[str, ...]
    remedy: str
    """The statement that adds the missing columns; changing and dropping columns is left to a user."""
    created_anew: bool = False
    """True if the task would create the target table if it were missing, and can still use another one."""

    code = "DM-5202"
    what = "the target table {target} does not fit the rows of {source}."
    hint = "Alter the target table, or leave the table out by block-allow-list."

    def workaround(self) -> str:
        freely = "Alter the target table, or drop it so that it is created again, or route to another table."
        return f"{freely if self.created_anew else self.hint} {self.remedy}".rstrip()

    def happened(self) -> str:
        found = (("missing", self.missing), ("only in the target", self.extra), ("different", self.different))
        differences = "; ".join(f"{label}: {', '.join(columns)}" for label, columns in found if columns)
        return (
            f"the target table {self.target} does not fit the rows of {self.source}. {differences}. "
            f"Source columns: {', '.join(self.source_columns)}. Target columns: {', '.join(self.target_columns)}."
        )


class ExpressionNotSupported(DmError):
    expression: str
    table: str
    why: str

    code = "DM-5203"
    what = "the expression filter {expression!r} of {table} is not supported: {why}."
    hint = "Rewrite it (docs/how-to/filters.md lists the expressions that are evaluated exactly), or remove the filter."


class ExpressionOutOfRange(UpstreamError):
    """A row for which an expression has no value; the server would stop with an error as well."""

    expression: str
    table: str

    code = "DM-5204"
    what = "the expression filter {expression!r} of {table} is out of range for a row."
    hint = "Nothing of this part of the log was written. Change the expression, and start the task again."


class ExtractNotPossible(DownstreamError):
    source: str
    target: str
    column: str
    why: str

    code = "DM-5205"
    what = "the column {column} of {target}, which the route of {source} fills, cannot be filled: {why}."
    hint = (
        "Create the target table by hand, with a text column for each extract-table, extract-schema and "
        "extract-source, as part of its key if the shards share keys; or remove the extract-… from the route."
    )


class TargetKeyNotKept(DownstreamError):
    source: str
    target: str
    key: str

    code = "DM-7017"
    what = (
        "the unique key {key} of {target} has no counterpart in {source} that distinguishes the same rows: several "
        "rows of the source may have the same values in it, or the target's collation treats more values as equal."
    )
    hint = (
        "Drop the key in the target, add it to the source, or give the target's columns the source's collation, so "
        "that no row replaces another. If rows are meant to overwrite each other, set the loader's "
        "on-duplicate-logical to replace."
    )


class Refused(Exception):
    """A part of an expression that is not supported; the argument is the reason."""


class OutOfRange(Exception):
    """A value outside the range of its type."""


class UnknownColumn(Exception):
    """A column that the table lacks: a filter that names it has no effect. The argument is its name."""
