"""The first words of a statement decide what it is to a scan."""

import pytest

from airflow_provider_dm.engine.ddl.first_words import Statement, kind_of


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        (b"BEGIN", Statement.BEGIN),
        (b"START TRANSACTION", Statement.BEGIN),
        (b"COMMIT", Statement.COMMIT),
        (b"commit /* x */", Statement.COMMIT),
        (b"ROLLBACK", Statement.ROLLBACK),
        (b"ROLLBACK TO `s`", Statement.ROLLBACK_TO),
        (b"rollback work to savepoint s", Statement.ROLLBACK_TO),
        (b"SAVEPOINT `s`", Statement.SAVEPOINT),
        (b"RELEASE SAVEPOINT s", Statement.SAVEPOINT),
        (b"", Statement.NOTHING),
        (b"/* only */ -- a comment", Statement.NOTHING),
        (b"# Dummy event", Statement.NOTHING),
        (b"XA START 'x'", Statement.XA),
        (b"INSERT INTO t VALUES (1)", Statement.ROW_CHANGE),
        (b"/* hint */\n-- and more\n  replace into t values (1)", Statement.ROW_CHANGE),
        (b"/*!40000 UPDATE t SET a = 1 */", Statement.ROW_CHANGE),
        (b"/*M!100100 DELETE FROM t */", Statement.ROW_CHANGE),
        (b"WITH x AS (SELECT 1) DELETE FROM t", Statement.ROW_CHANGE),
        (b"CREATE TABLE t (a INT)", Statement.DDL),
        (b"TRUNCATE t", Statement.DDL),
        (b"/*!50003 CREATE TRIGGER x */", Statement.DDL),
        (b"GRANT SELECT ON *.* TO x", Statement.DDL),
        (b"`strange`", Statement.DDL),
        (b"BEGINNING", Statement.DDL),
    ],
)
def test_the_first_words_decide(sql: bytes, kind: Statement) -> None:
    assert kind_of(sql) is kind
