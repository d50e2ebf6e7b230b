"""Whether the source tables of a merged table are alike, as they have to be when it is copied again.

Those that were the same when they were planned have to be the same now (groups.py), by what the target's table would be
after each as well as by their own text; and the sync takes no tables of which one has a column that another lacks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from airflow_provider_dm.engine.copy.groups import Groups, Member, unlike
from airflow_provider_dm.engine.copy.renewal import Sides, form_of
from airflow_provider_dm.engine.copy.watch import Settled
from airflow_provider_dm.engine.ddl.server import server_of
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import check_same_columns
from airflow_provider_dm.engine.schema.model import Table


def why_unlike(settled: Sequence[Settled], groups: Groups, target: Endpoint) -> dict[TableName, str]:
    """Return the merged tables whose source tables are not alike, and which two are not."""
    with connected(target) as connection:
        server = server_of(connection)
    forms: list[tuple[dict[Member, Hashable], dict[Member, Hashable]]] = [({}, {}), ({}, {})]
    tables: dict[Member, Table] = {}
    for one in settled:
        sides = Sides(one.survey.flavour, server)
        for new in (table for table in one.survey.tables if table.target in groups.together):
            member, old = (one.watch.source.id, new.table.name), one.seen.stand.old(new.table.name)
            tables[member] = new.table
            if old is not None and old[1]:
                was = form_of(old[1], old[0], new.collation, sides)
                became = form_of(new.create, new.table, new.collation, sides)
                for (before, now), form, newer in zip(forms, was, became, strict=True):
                    before[member], now[member] = form, newer
    waits: dict[TableName, str] = {}
    reads_log = any(one.watch.reads_log for one in settled)
    for merged, group in groups.together.items():
        pair = next((pair for before, now in forms if (pair := unlike(before, now, group)) is not None), None)
        there = [tables[one] for one in sorted(group) if one in tables]
        if pair is not None:
            waits[merged] = " and ".join(f"{name} ({source})" for source, name in pair) + " were the same"
        elif reads_log and (why := _different_columns(there)):
            waits[merged] = why
    return waits


def _different_columns(tables: Sequence[Table]) -> str:
    """Say which columns of one another one lacks; "": none."""
    try:
        for table in tables:
            check_same_columns(table, tables[0])
    except NotSupportedYet as error:
        return str(error)
    return ""
