"""A year of a shop's migrations in a few minutes: a sync follows them all, and stops at none.

TiDB cannot follow some as they are: the sync stops before each, and continues after what the error advises.
Between MySQL and MariaDB several conversions stop, as tests/integration/sync/test_conversions.py shows.
"""

from typing import Final

import pytest

from airflow_provider_dm.engine.downstream.errors import DdlRefused
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, SqlPattern
from airflow_provider_dm.engine.sync.errors import DdlNotSupported
from testbed.equality import Comparison, Place, compare
from tests.ddl_campaign.comparing import as_in_tidb, different
from tests.integration.sync.conftest import SOURCE_ID, SyncKit
from tests.integration.sync.year.definitions import differences, tables_of
from tests.integration.sync.year.script import Migration, for_pair, the_year

AT_ONCE: Final = 25
"""Migrations that pile up before the sync runs: it meets DDL before rows and after, and tables that are gone."""

KEPT_BY_TIDB: Final = "catalog_item_tags key catalog_item_tags_tag_id_9a8b7c6d_fk_catalog_tag_id\n  source: None"
"""A key that a foreign key made; without the foreign key the others drop it as soon as a further key does its work."""


@pytest.mark.one_family
@pytest.mark.timeout(1800)
def test_a_sync_follows_a_year_of_migrations(kit: SyncKit) -> None:
    founded, *year = for_pair(the_year(), kit.source.flavour, kit.target.flavour)
    for server in (kit.source, kit.target):
        server.sql(f"ALTER DATABASE `{kit.schema}` CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci")
        founded.execute(server, kit.schema, *founded.on(kit.source.flavour))
    kit.begin()
    at_once = 1 if kit.target.flavour == "tidb" else AT_ONCE
    for first in range(0, len(year), at_once):
        migrations = year[first : first + at_once]
        for migration in migrations:
            migration.run(kit.source, kit.schema)
        try:
            _sync(kit, migrations[-1])
        except Exception as error:
            error.add_note(f"{kit.source.flavour} -> {kit.target.flavour}, in {', '.join(map(str, migrations))}")
            raise
    as_shown_by = as_in_tidb if kit.target.flavour == "tidb" else dict
    found = differences(kit.source, kit.target, kit.schema, as_shown_by=as_shown_by)
    found = [one for one in found if kit.target.flavour != "tidb" or not one.startswith(KEPT_BY_TIDB)]
    assert not found, "\n".join(found)
    names = tables_of(kit.source, kit.schema)
    assert len(names) > 60
    assert [name for name in names if name.startswith("_")] == ["_prisma_migrations"], "the online tools left something"
    if kit.target.flavour == "tidb":  # it shows the members of a JSON object in an order of its own
        rows = different(kit.source, kit.target, kit.schema, names, definitions=False)
        assert not rows, "\n".join(rows)
        return
    report = compare([Comparison((_place(kit, name),), _place(kit, name, there=True)) for name in names])
    assert report.equal, "\n".join(str(one) for one in report.tables if not one.equal)


def _sync(kit: SyncKit, last: Migration) -> None:
    """Sync. If TiDB cannot follow the last migration, carry out the remedy at each stop."""
    for text in last.on("tidb") if kit.target.flavour == "tidb" else ():
        remedy = text.replace("`shop`", f"`{kit.schema}`")
        with pytest.raises((DdlNotSupported, DdlRefused)) as stop:
            kit.sync()
        if isinstance(stop.value, DdlNotSupported):
            operator = Operator(
                kit.task, SOURCE_ID, OperatorKind.REPLACE, SqlPattern("."), tuple(remedy.rstrip(";").split("; "))
            )
        else:
            last.execute(kit.target, kit.schema, remedy)
            operator = Operator(kit.task, SOURCE_ID, OperatorKind.SKIP, SqlPattern("."))
        kit.store.put_operators([operator])
    kit.sync()


def _place(kit: SyncKit, table: str, *, there: bool = False) -> Place:
    server = kit.target if there else kit.source
    return Place(server.client_config(), f"{kit.schema}.{table}")
