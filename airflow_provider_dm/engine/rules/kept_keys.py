"""Checks that rows that are distinct at the source stay distinct in the target.

After a start whose past is not exact, a colliding row is overwritten (sync/safe_mode), and the overwritten row may be
another row of the source, which would not be noticed. So every unique key of the target has to follow from a unique key
of the source: it has the same or more columns, and distinguishes the same texts. If filters skip changes, a row is
written over any row with its identity key (`WritePolicy`), so that key has to follow. Otherwise a row that is distinct
at the source only causes a duplicate key error, which stops the task.
"""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.ddl.dialects import COLLATIONS
from airflow_provider_dm.engine.rules.errors import TargetKeyNotKept
from airflow_provider_dm.engine.rules.expressions.text import pads
from airflow_provider_dm.engine.rules.mapping import TableMapping, family
from airflow_provider_dm.engine.rules.row_filter import FilterLoss, RowFilter
from airflow_provider_dm.engine.schema.model import Column, Index

_NEAREST: Final = frozenset(pair for swaps in COLLATIONS.values() for pair in swaps.items())
"""Collations of target tables that are created for the task, with a note."""


def check_keys_kept(mapping: TableMapping) -> None:
    """Check that every unique key of the target follows from one of the source. Raises TargetKeyNotKept."""
    for key in mapping.target.unique_keys:
        _check(key, mapping)


def check_identity_kept(mapping: TableMapping) -> None:
    """Check that the target's identity key, if any, follows from a key of the source. Raises TargetKeyNotKept."""
    if mapping.target.identity is not None:
        _check(mapping.target.identity, mapping)


def check_filtered(mapping: TableMapping, changes: RowFilter | None, *, merged: bool) -> None:
    """Check what the sync requires of a source table with this filter. `merged`: other tables feed the target. Then
    rows wait for their keys if only deletes are skipped. Raises TargetKeyNotKept."""
    if changes is not None and changes.loss > (FilterLoss.DELETES if merged else FilterLoss.NOTHING):
        check_identity_kept(mapping)


def _check(key: Index, mapping: TableMapping) -> None:
    if not _never_met(key, mapping) and not any(_follows(key, ours, mapping) for ours in mapping.source.unique_keys):
        raise TargetKeyNotKept(str(mapping.source.name), str(mapping.target.name), key.name)


def _never_met(key: Index, mapping: TableMapping) -> bool:
    """Return True if a column of the key is NULL in all written rows: the source lacks it."""
    columns = [mapping.target.column(name) for name in key.columns]
    own = (column for column in columns if column.name.lower() not in mapping.source.by_name)
    return any(column.nullable and not (column.filled or column.generated) for column in own)


def _follows(theirs: Index, ours: Index, mapping: TableMapping) -> bool:
    """Return True if rows that differ in `ours` differ in `theirs`."""
    if theirs.expression or ours.expression:
        return theirs.expression and ours.expression  # the expressions are not compared
    lengths = _lengths(theirs)
    for column, length in _lengths(ours).items():
        kept = lengths.get(column, 0)
        if kept is not None and (length is None or kept < length):
            return False
        if not _distinguishes(mapping.source.column(column), mapping.target.column(column)):
            return False
    return True


def _lengths(key: Index) -> dict[str, int | None]:
    return {name.lower(): length for name, length in key.parts}


def _distinguishes(ours: Column, theirs: Column) -> bool:
    """Return True if text that differs at the source differs in the target, judged by the names of the collations."""
    if family(ours) != "text" or ours.collation is None or theirs.collation is None:
        return True
    if (ours.collation, theirs.collation) in _NEAREST or _rule(ours.collation) == _rule(theirs.collation):
        return True
    return theirs.collation.endswith("_bin") and (pads(ours.collation) or not pads(theirs.collation))


def _rule(collation: str) -> str:
    """Return the name of a collation without its charset.

    >>> _rule("utf8mb3_general_ci") == _rule("utf8mb4_general_ci")
    True
    """
    charset, _, rule = collation.partition("_")
    return rule if charset in ("utf8", "utf8mb3", "utf8mb4") else collation
