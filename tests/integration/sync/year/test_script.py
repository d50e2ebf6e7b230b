"""Both flavours take all of the year's migrations."""

from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.sync.year.definitions import tables_of
from tests.integration.sync.year.script import the_year


def test_both_servers_take_all_of_it(source: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(source)
    source.sql(f"ALTER DATABASE `{schema}` CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci")
    for migration in the_year():
        migration.run(source, schema)
    names = tables_of(source, schema)
    assert len(names) > 60
    assert [name for name in names if name.startswith("_")] == ["_prisma_migrations"], "the online tools left something"
