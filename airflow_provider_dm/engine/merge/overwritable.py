"""The condition for overwriting rows of a target table in safe mode (sync/safe_mode/overwriting.py)."""

from __future__ import annotations

from functools import lru_cache

from airflow_provider_dm.engine.merge.owner_writer import unique_positions
from airflow_provider_dm.engine.rules.errors import TargetKeyNotKept
from airflow_provider_dm.engine.rules.kept_keys import check_keys_kept
from airflow_provider_dm.engine.rules.mapping import TableMapping


def has_own_columns(mapping: TableMapping) -> bool:
    """Return True if the target has a column that is neither generated nor in the source."""
    source = mapping.source.by_name
    return any(name not in source and not column.generated for name, column in mapping.target.by_name.items())


@lru_cache(maxsize=1024)
def is_overwritable(mapping: TableMapping) -> bool:
    """Return True if a source row may overwrite every target row that has one of its keys.

    False if the target has no key; if two rows of the source may be equal in the target (rules/kept_keys.py); or if the
    target has columns of its own, whose values must be kept, and a unique key over other parts than whole columns.
    """
    if mapping.target.identity is None:
        return False
    try:
        check_keys_kept(mapping)
    except TargetKeyNotKept:
        return False
    return not has_own_columns(mapping) or all(
        unique_positions(mapping, index) is not None for index in mapping.target.unique_keys
    )
