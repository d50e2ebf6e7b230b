"""What happened to one row: the change algebra.

A change is `(before, after)`; None means that there is no row. INSERT is (None, a), DELETE (b, None), UPDATE (b, a).
Two changes of the same key in log order compose to one, and composing is associative, so a log may be cut anywhere,
folded in pieces and put together again. (None, None) stays a value: the row was born and is gone. What that means for
the target depends on the mode, and only `causality` knows.

An update that moves the key is a deletion at the old key and an insertion at the new one. A row of a table without a
key has no identity to change: it is a signed count of its image (`compactor`).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.schema.codec import Row, Value

Key: TypeAlias = Value | tuple[Value, ...]
"""Canonical identity values; a single column's value as it is."""


class BrokenChain(DmError):
    """Two changes of one key do not fit together. The key's values are left out on purpose."""

    table: str
    key_columns: tuple[str, ...]
    held: str
    found: str

    code = "DM-6020"
    scope = Scope.UPSTREAM
    what = (
        "the log changes a row of {table} (key {key_columns}) in a way that does not follow from the change before: "
        "that one left {held}, the next one begins with {found}."
    )
    hint = (
        "The log is incomplete (sql_log_bin=0, a lost file), or, with `on-duplicate-logical: replace`, two shards hold "
        "rows with the same key. Nothing of this epoch was written."
    )


class Change(NamedTuple):
    """The pair (row before, row after) of one key."""

    before: Row | None
    after: Row | None

    def then(self, later: Change) -> Change | None:
        """Return this change and then `later`, as one; None when `later` does not begin where this one ends.

        >>> Change(None, (b"1",)).then(Change((b"1",), (b"2",)))
        Change(before=None, after=(b'2',))
        """
        return Change(self.before, later.after) if self.after == later.before else None
