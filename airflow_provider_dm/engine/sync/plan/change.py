"""The change of one row, and the composition of changes.

A change is `(before, after)`; None means no row. INSERT is (None, a), DELETE (b, None), UPDATE (b, a). Two successive
changes of the same key compose to one. Composition is associative, so a log can be cut anywhere, folded in pieces, and
the pieces combined. (None, None) is a value: the row was inserted and deleted. Its effect on the target depends on the
mode (`causality`).

An UPDATE that changes the key is a DELETE of the old key and an INSERT of the new one. A row of a table without a key
has no identity: it is a signed count of its image (`compactor`).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from airflow_provider_dm.engine.schema.codec import Row, Value

Key: TypeAlias = Value | tuple[Value, ...]
"""The canonical values of the identity key: a tuple, or the value itself if the key has one column."""


class Change(NamedTuple):
    """The rows of one key before and after a change; None: no row."""

    before: Row | None
    after: Row | None
