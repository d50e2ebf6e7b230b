"""The open places of one subtask: facts about locations that the frontier has not reached (binlog/open_places.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from airflow_provider_dm.engine.binlog.open_places import OpenPlace
from airflow_provider_dm.engine.ddl.first_words import first_words
from airflow_provider_dm.engine.downstream.ddl_journal import statements_under_way
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.table_schema import load_table_schemas
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.sync.log.locations import location_at


def read_open_places(
    connection: Connection,
    ref: SubtaskRef,
    rules: BlockAllowRules,
    lo: Location,
    base_of: Callable[[int], str | None],
    overwrite_until: Location | None,
) -> tuple[OpenPlace, ...]:
    """Return the open places after `lo`. `base_of`: see `location_at`. `overwrite_until`: from dm_subtask.

    Raises IncompleteResult.
    """

    def found() -> Iterator[tuple[str, str, Location | None]]:
        for position, sql in statements_under_way(connection, ref, lo.sort_key):
            what = f"the target has begun to execute the DDL at that location ({first_words(sql)})"
            yield position, what, None
        for schema in load_table_schemas(connection, ref):
            if rules.allows(schema.table.name):
                until = schema.skip_until
                yield until, f"DM has applied {schema.table.name} up to there", known_end_after(until, overwrite_until)

    return tuple(
        OpenPlace(ref.source, location_at(key, lo, base_of), what, within=within)
        for key, what, within in found()
        if key > lo.sort_key
    )


def known_end_after(key: str, overwrite_until: Location | None) -> Location | None:
    """Return the end of the inexact part of the log if its GTID set is known and the location `key` is before it."""
    if overwrite_until is None or not overwrite_until.gtid_set:
        return None
    same_log = key.partition(".")[0] == overwrite_until.sort_key.partition(".")[0]
    return overwrite_until if same_log and key <= overwrite_until.sort_key else None
