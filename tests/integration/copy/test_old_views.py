"""The view of a snapshot on a table after DDL: measured behaviour of the servers on which copies rely.

After most DDL an old read view fails. After some, it shows other values than the table had, without an error; so a copy
asks by another connection whether a table is still the one that it was (`births`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pymysql
import pytest

from testbed import Server

ROWS: Final = ((1, 10, 100, 0), (2, 20, 200, 0))
SAME, FAILS, WRONG = "same", "fails", "wrong"
_FAILURES: Final = {1054, 1146, 1412}
DDL: Final[dict[str, str | dict[str, str]]] = {
    "ALTER TABLE t ADD KEY kb (b)": SAME,
    "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a": WRONG,
    "ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD COLUMN b INT NOT NULL DEFAULT 5": {
        "mariadb": WRONG,
        "mysql": FAILS,
    },
    "RENAME TABLE t TO q, z TO t": WRONG,
    "ALTER TABLE t DROP COLUMN b": FAILS,
    "ALTER TABLE t MODIFY a BIGINT": FAILS,
    "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a)": FAILS,
    "TRUNCATE TABLE t": FAILS,  # on MySQL 5.7 WRONG, so the tables' numbers are asked for
    "TRUNCATE TABLE t; INSERT INTO t VALUES (9, 9, 9, 9)": FAILS,
    "DROP TABLE t": FAILS,
    "DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT)": FAILS,
    "RENAME TABLE t TO q": FAILS,
}


@contextmanager
def old_view(server: Server, schema: str) -> Iterator[Any]:
    with server.connect(database=schema) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        yield cursor


def shown(cursor: Any) -> str:
    try:
        cursor.execute("SELECT id, a, b, c FROM t FORCE INDEX (PRIMARY) ORDER BY id")
    except pymysql.err.MySQLError as error:
        assert error.args[0] in _FAILURES  # noqa: PT017
        return FAILS
    return SAME if cursor.fetchall() == ROWS else WRONG


@pytest.mark.parametrize("ddl", DDL)
def test_an_old_view_behind_ddl(source: Server, schema: str, ddl: str) -> None:
    for name, rows in (("t", ROWS), ("z", ((5, 5, 5, 5),))):
        source.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b INT, c INT)", database=schema)
        source.sql(f"INSERT INTO {name} VALUES {', '.join(map(str, rows))}", database=schema)
    with old_view(source, schema) as view:
        source.sql(ddl, database=schema)
        expected = DDL[ddl]
        assert shown(view) == (expected if isinstance(expected, str) else expected[source.flavour])


@pytest.mark.parametrize("binlog", [1, 0])
def test_a_savepoint_releases_the_metadata_lock(source: Server, schema: str, binlog: int) -> None:
    """Not on MariaDB with a binlog. There a SELECT that may not wait fails exactly while DDL waits."""
    source.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=schema)
    kept = source.flavour == "mariadb" and binlog == 1
    with source.connect(database=schema) as connection, connection.cursor() as view:
        for statement in (f"SET sql_log_bin = {binlog}", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "SAVEPOINT p"):
            view.execute(statement)
        view.execute("SELECT * FROM t")
        view.execute("ROLLBACK TO SAVEPOINT p")
        if kept:
            with pytest.raises(pymysql.err.OperationalError, match="Lock wait timeout"):
                source.sql("SET SESSION lock_wait_timeout = 1; ALTER TABLE t ADD a INT", database=schema)
        else:
            source.sql("SET SESSION lock_wait_timeout = 1; ALTER TABLE t ADD a INT", database=schema)


def test_a_snapshot_shows_when_its_table_was_created_as_it_was_then(mysql_source: Server, schema: str) -> None:
    """So a birth is asked for by another connection."""
    mysql_source.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT)", database=schema)
    asked = f"SELECT create_time FROM information_schema.tables WHERE table_schema = '{schema}' AND table_name = 't'"
    with old_view(mysql_source, schema) as view:
        view.execute(asked)
        before = view.fetchall()
        while mysql_source.sql(asked) == list(before):
            mysql_source.sql("ALTER TABLE t ENGINE=InnoDB", database=schema)
        view.execute(asked)
        assert view.fetchall() == before
