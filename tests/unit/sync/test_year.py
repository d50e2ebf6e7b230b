"""The script of a year's migrations (`tests/integration/sync/year`) has the listed contents."""

import re

from tests.integration.sync.year.script import Migration, the_year

ROWS = re.compile(r"(INSERT|UPDATE|DELETE|REPLACE|BEGIN)\b", re.IGNORECASE)
DDL = re.compile(r"CREATE|ALTER|DROP|RENAME|TRUNCATE|SHOWN|OPTIMIZE", re.IGNORECASE)
EXEMPT_AT_MOST = 20


def has_rows_around(migration: Migration) -> bool:
    """Return True if its source's rows change before its last DDL, and after it."""
    texts = [text for text, flavours in migration.statements if "tidb" not in flavours]
    rows = [at for at, text in enumerate(texts) if ROWS.match(text)]
    ddl = [at for at, text in enumerate(texts) if not ROWS.match(text) and DDL.search(text)]
    return bool(rows and ddl) and rows[0] < ddl[-1] < rows[-1]


def test_it_has_two_hundred_migrations_with_rows_around_each() -> None:
    founded, *migrations = the_year()
    assert founded.number == 0
    assert [one.number for one in migrations] == list(range(1, 201))
    assert [str(one) for one in migrations if not has_rows_around(one)] == []


def test_few_migrations_are_left_out_between_families() -> None:
    assert sum(bool(one.only_within) for one in the_year()) <= EXEMPT_AT_MOST
