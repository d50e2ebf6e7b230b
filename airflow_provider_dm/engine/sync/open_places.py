"""What is known of one subtask by places of its log that the frontier has not come to (binlog/open_places.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from airflow_provider_dm.engine.binlog.open_places import OpenPlace
from airflow_provider_dm.engine.ddl.first_words import first_words
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.sync.locations import location_at
from airflow_provider_dm.engine.target.copied_tables import load_copied_again
from airflow_provider_dm.engine.target.ddl_journal import statements_under_way
from airflow_provider_dm.engine.target.identity import SubtaskRef
from airflow_provider_dm.engine.target.table_schema import load_table_schemas


def read_open_places(
    connection: Connection,
    ref: SubtaskRef,
    rules: BlockAllowRules,
    lo: Location,
    base_of: Callable[[int], str | None],
) -> tuple[OpenPlace, ...]:
    """Return the places behind `lo`. `base_of`: see `location_at`. Raises AnswerCut."""

    def found() -> Iterator[tuple[str, str]]:
        for position, sql in statements_under_way(connection, ref, lo.sort_key):
            yield position, f"the target has begun to execute the DDL that ends there ({first_words(sql)})"
        for schema in load_table_schemas(connection, ref):
            if rules.allows(schema.table.name):
                yield schema.skip_until, f"{schema.table.name} is copied up to there"
        for name, until in load_copied_again(connection, ref).items():
            if rules.allows(name):
                yield until, f"{name} is copied up to there"

    return tuple(
        OpenPlace(ref.source, location_at(key, lo, base_of), what) for key, what in found() if key > lo.sort_key
    )
