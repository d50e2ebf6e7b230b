"""A year of a shop's migrations in a few minutes: a sync follows them all, and stops at none.

Two pairs are in every run; DM_ALL_PAIRS=1 has the others as well.
"""

from __future__ import annotations

from typing import Final

import pytest

from testbed.equality import Comparison, Place, compare
from tests.integration.sync.conftest import SyncKit
from tests.integration.sync.year.definitions import differences, tables_of
from tests.integration.sync.year.script import for_pair, the_year

AT_ONCE: Final = 25
"""Migrations that pile up before the sync runs: it meets DDL in front of rows and behind, and tables that are gone."""


@pytest.mark.timeout(1800)
def test_a_sync_follows_a_year_of_migrations(kit: SyncKit) -> None:
    founded, *year = for_pair(the_year(), kit.source.flavour, kit.target.flavour)
    for server in (kit.source, kit.target):
        server.sql(f"ALTER DATABASE `{kit.schema}` CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci")
        founded.run(server, kit.schema)
    kit.begin()
    for first in range(0, len(year), AT_ONCE):
        migrations = year[first : first + AT_ONCE]
        for migration in migrations:
            migration.run(kit.source, kit.schema)
        try:
            kit.sync()
        except Exception as error:
            error.add_note(f"{kit.source.flavour} -> {kit.target.flavour}, in {', '.join(map(str, migrations))}")
            raise
    found = differences(kit.source, kit.target, kit.schema)
    assert not found, "\n".join(found)
    names = tables_of(kit.source, kit.schema)
    assert len(names) > 60
    assert [name for name in names if name.startswith("_")] == ["_prisma_migrations"], "the online tools left something"
    report = compare([Comparison((_place(kit, name),), _place(kit, name, there=True)) for name in names])
    assert report.equal, "\n".join(str(one) for one in report.tables if not one.equal)


def _place(kit: SyncKit, table: str, *, there: bool = False) -> Place:
    server = kit.target if there else kit.source
    return Place(server.client_config(), f"{kit.schema}.{table}")
