"""Copies and comparisons between servers with unusual global settings."""

import pytest

from testbed import Server
from tests.integration.copy.migrations import Migration, assert_same
from tests.integration.copy.test_full_copy import (  # noqa: F401 (run again, on other servers)
    test_every_kind_of_table_is_replicated,
)
from tests.integration.verify.test_verification import (  # noqa: F401
    test_copied_rows_are_equal_and_changed_rows_are_found,
    verified,
)

pytestmark = pytest.mark.hostile


def test_rows_and_tables_are_as_many_as_there_are(source: Server, target: Server, schema: str) -> None:
    """More rows without a key, more rows with one, more tables, columns and chunks than any answer would have."""
    numbers = ", ".join(f"({n})" for n in range(500))
    columns = ", ".join(f"c{n} INT DEFAULT {n}" for n in range(20))
    source.sql(
        f"CREATE TABLE many (a INT); INSERT INTO many VALUES {numbers};"
        f"CREATE TABLE wide (id INT PRIMARY KEY, {columns}); INSERT INTO wide (id) VALUES {numbers};"
        f"CREATE TABLE words (k VARCHAR(300) PRIMARY KEY); INSERT INTO words SELECT REPEAT(a + 1000, 70) FROM many;"
        + "".join(f"CREATE TABLE t{n} (id INT PRIMARY KEY); INSERT INTO t{n} VALUES (0), ({n + 1});" for n in range(9)),
        database=schema,
    )
    task = {"mydumpers": {"global": {"rows": 50}}, "name": "test"}
    migration = Migration.of(target, source, schema, task=task, instance={"mydumper-config-name": "global"})

    copied = migration.finish()

    names = ["many", "wide", "words", *(f"t{n}" for n in range(9))]
    assert copied["sources"]["one"]["tables"] == len(names)
    assert_same(source, target, schema, *names)
    assert verified(migration)["rows"] == 3 * 500 + 9 * 2
    target.sql(f"DELETE FROM {schema}.many LIMIT 1; DELETE FROM {schema}.words LIMIT 1")
    assert [table["target_rows"] for table in verified(migration)["tables"] if not table["equal"]] == [499, 499]
