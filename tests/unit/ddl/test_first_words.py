"""The first words of a statement decide what it is to a scan."""

import pytest

from airflow_provider_dm.engine.ddl.first_words import StatementKind, kind_of


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        (b"BEGIN", StatementKind.BEGIN),
        (b"START TRANSACTION", StatementKind.BEGIN),
        (b"COMMIT", StatementKind.COMMIT),
        (b"commit /* x */", StatementKind.COMMIT),
        (b"ROLLBACK", StatementKind.ROLLBACK),
        (b"ROLLBACK TO `s`", StatementKind.ROLLBACK_TO),
        (b"rollback work to savepoint s", StatementKind.ROLLBACK_TO),
        (b"SAVEPOINT `s`", StatementKind.SAVEPOINT),
        (b"RELEASE SAVEPOINT s", StatementKind.SAVEPOINT),
        (b"", StatementKind.NOTHING),
        (b"/* only */ -- a comment", StatementKind.NOTHING),
        (b"# Dummy event", StatementKind.NOTHING),
        (b"XA START 'x'", StatementKind.XA),
        (b"INSERT INTO t VALUES (1)", StatementKind.ROW_CHANGE),
        (b"/* hint */\n-- and more\n  replace into t values (1)", StatementKind.ROW_CHANGE),
        (b"/*!40000 UPDATE t SET a = 1 */", StatementKind.ROW_CHANGE),
        (b"/*M!100100 DELETE FROM t */", StatementKind.ROW_CHANGE),
        (b"WITH x AS (SELECT 1) DELETE FROM t", StatementKind.ROW_CHANGE),
        (b"CREATE TABLE t (a INT)", StatementKind.DDL),
        (b"TRUNCATE t", StatementKind.DDL),
        (b"/*!50003 CREATE TRIGGER x */", StatementKind.DDL),
        (b"GRANT SELECT ON *.* TO x", StatementKind.DDL),
        (b"`strange`", StatementKind.DDL),
        (b"BEGINNING", StatementKind.DDL),
    ],
)
def test_the_first_words_decide(sql: bytes, kind: StatementKind) -> None:
    assert kind_of(sql) is kind
