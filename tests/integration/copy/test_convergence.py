"""A load in many rounds, then sync, while a writer never pauses: in the end the target is the source."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
import pytest
from pymysql.constants import ER

from airflow_provider_dm.engine.copy import source_load
from testbed import Server
from tests.beside import beside
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import NewTask, assert_same, set_page_rows

TABLES = {
    "plain": "id INT PRIMARY KEY, v INT",
    "pair": "a INT, b VARCHAR(10), v INT, PRIMARY KEY (a, b)",
    "unique_too": "id INT PRIMARY KEY, u INT, v INT, UNIQUE KEY u (u)",
    "keyless": "a INT, b VARCHAR(10)",
}
MORE = """v INT, own INT NOT NULL DEFAULT 7, maybe INT UNIQUE, at TIMESTAMP NOT NULL DEFAULT NOW(),
    twice INT AS (v * 2), c VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, UNIQUE KEY vc (v, c, maybe)"""
IN_ANOTHER_WAY = {
    "more": ("c VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT", MORE),
    "keyed_there": ("c INT NOT NULL, v INT", "c INT PRIMARY KEY, v INT, UNIQUE KEY vc (v, c)"),
    "counted_there": ("c INT, v INT", "c INT, v INT, n BIGINT AUTO_INCREMENT PRIMARY KEY"),
    "keyless_there": ("c INT PRIMARY KEY, v INT", "c INT, v INT, own VARCHAR(9) NOT NULL DEFAULT ''"),
    "by_another_key": (
        "id INT AUTO_INCREMENT PRIMARY KEY, c INT NOT NULL UNIQUE, v INT",
        "id INT NOT NULL, c INT NOT NULL PRIMARY KEY, v INT, KEY (id)",
    ),
}
"""What a user has made of a table in the target. All have a key `c`, which is theirs or the writer's."""
KEYS = 400
FIRST = {
    "plain": "INSERT INTO plain VALUES (%(n)s, 0)",
    "pair": "INSERT INTO pair VALUES (%(n)s % 7, CONCAT('k', %(n)s), 0)",
    "unique_too": "INSERT INTO unique_too VALUES (%(n)s, %(n)s, 0)",
    "keyless": "INSERT INTO keyless VALUES (%(n)s % 20, 'twin')",
}
CHANGES_OF = (
    "DELETE FROM {t} WHERE c = '{a}'",
    "UPDATE {t} SET v = {b} WHERE c = '{a}'",
    "UPDATE {t} SET v = v + 1 WHERE v % 7 = {a} % 7",
    "DELETE FROM {t} WHERE c = '{a}'; INSERT INTO {t} (c, v) VALUES ('{a}', {b})",
    "DELETE FROM {t} WHERE c = '{b}'; UPDATE {t} SET c = '{b}' WHERE c = '{a}'",
)
CHANGES = (
    *(one.replace("{t}", table) for one in CHANGES_OF for table in IN_ANOTHER_WAY),
    "REPLACE INTO plain VALUES ({a}, {b})",
    "DELETE FROM plain WHERE id = {a}",
    "UPDATE IGNORE plain SET id = {b} WHERE id = {a}",
    "UPDATE pair SET v = {b} WHERE a = {a} % 7",
    "DELETE FROM pair WHERE b = 'k{a}'",
    "INSERT IGNORE INTO pair VALUES ({a} % 7, 'k{b}', {a})",
    "UPDATE IGNORE unique_too SET u = {b}, v = v + 1 WHERE id = {a}",
    "DELETE FROM unique_too WHERE u = {a}",
    "INSERT IGNORE INTO unique_too VALUES ({a}, {b}, 0)",
    "UPDATE IGNORE unique_too SET id = {b} WHERE id = {a}",
    "INSERT INTO keyless VALUES ({a} % 20, 'twin'), ({a} % 20, 'twin')",
    "DELETE FROM keyless WHERE a = {a} % 20 LIMIT 1",
    "UPDATE keyless SET b = 'x{b}' WHERE a = {a} % 20 LIMIT 2",
)


@contextmanager
def writer(server: Server, schema: str, pause: float) -> Iterator[None]:
    """Random transactions over few keys until the block ends."""

    def write(ended: threading.Event) -> None:
        chance = random.Random(5)
        with server.connect(database=schema, autocommit=False) as connection, connection.cursor() as cursor:
            while not ended.is_set():
                try:
                    for _ in range(chance.randint(1, 4)):
                        change = chance.choice(CHANGES).format(a=chance.randint(1, KEYS), b=chance.randint(1, KEYS))
                        for statement in change.split("; "):
                            cursor.execute(statement)
                    connection.commit()
                except pymysql.err.IntegrityError:
                    connection.rollback()
                except pymysql.err.OperationalError as error:
                    if error.args[0] != ER.LOCK_DEADLOCK:  # a round's lock may choose a writer as the victim
                        raise
                time.sleep(pause)

    with beside(write):
        yield


def test_copy_and_sync_converge_while_a_writer_runs(
    source: Server,
    target: Server,
    fresh_schema: FreshSchema,
    schema: str,
    new_task: NewTask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, columns in TABLES.items():
        source.sql(f"CREATE TABLE {name} ({columns})", database=schema)
        with source.connect(database=schema) as connection, connection.cursor() as cursor:
            for number in range(1, KEYS + 1):
                cursor.execute(FIRST[name].replace("% 7", "%% 7").replace("% 20", "%% 20"), {"n": number})
    fresh_schema(target)
    for name, (here, there) in IN_ANOTHER_WAY.items():
        source.sql(f"CREATE TABLE {name} ({here})", database=schema)
        target.sql(f"CREATE TABLE {name} ({there})", database=schema)
        rows = ", ".join(f"('{number}', {number % 9})" for number in range(1, KEYS + 1))
        source.sql(f"INSERT INTO {name} (c, v) VALUES {rows}", database=schema)
    # A load into TiDB fell so far behind the other writer that the test took a quarter of an hour.
    pause, round_seconds = (0.02, 1) if target.flavour == "tidb" else (0.001, 0.3)
    set_page_rows(monkeypatch, 4)
    monkeypatch.setattr(source_load, "ROUND_SECONDS", round_seconds)
    migration = new_task(target, source, schema)
    with writer(source, schema, pause):
        result = migration.finish()
        assert migration.sync().finished
        time.sleep(0.5)
    assert migration.sync().finished

    assert result["sources"]["one"]["rounds"] > 1, "the writer did nothing between two rounds"
    assert_same(source, target, schema, *TABLES)
    for name in IN_ANOTHER_WAY:
        columns = "id, c, v" if name == "by_another_key" else "c, v"
        both = [sorted(one.sql(f"SELECT {columns} FROM {name}", database=schema), key=repr) for one in (source, target)]
        assert both[0] == both[1], name
    assert target.sql("SELECT COUNT(*) FROM more WHERE own <> 7 OR NOT twice <=> v * 2", database=schema) == [(0,)]
