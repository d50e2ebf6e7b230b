"""The same for files that servers have written: whole, they are read as they are; damaged, the promise is kept."""

from pathlib import Path
from typing import Final

import pytest

from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Table
from testbed import Server
from tests.fuzz.cases import check, make_case, must_be_detected, warm_up
from tests.fuzz.corpus import Seed
from tests.fuzz.guided import events_of
from tests.fuzz.judge import judge
from tests.fuzz.subject import Reading, follow, log_files
from tests.fuzz.writer import Log
from tests.integration.binlog.reading import FreshSchema, definition, session
from tests.integration.binlog.reading import log_files as files_of

pytestmark = pytest.mark.computes

SEED: Final = 20_260_102
CASES: Final = 180

COLUMNS: Final = {
    "id": "INT PRIMARY KEY AUTO_INCREMENT",
    "number": "BIGINT UNSIGNED",
    "amount": "DECIMAL(20,6)",
    "ratio": "DOUBLE",
    "bits": "BIT(9)",
    "moment": "DATETIME(5)",
    "span": "TIME(3)",
    "stamp": "TIMESTAMP(2) NULL",
    "name": "VARCHAR(90)",
    "code": "CHAR(5)",
    "raw": "BINARY(4)",
    "note": "TEXT",
    "kind": "ENUM('a','b')",
    "flags": "SET('x','y','z')",
}
VALUES: Final = (
    "18446744073709551615, -12345.678901, -0.1, b'100000001', '2024-02-29 23:59:59.98765', '-838:59:58.999', "
    "'2001-02-03 04:05:06.07', 'it''s é', 'ab', x'0100', repeat('long ', 40), 'b', 'x,z'"
)
EXTRA: Final = {
    "mysql": ({"doc": "JSON", "place": "POINT"}, """, '{"a": [1, 2.5, "three"], "b": null}', POINT(1, 2)"""),
    "mariadb": ({"who": "UUID", "ip": "INET6"}, ", '123e4567-e89b-12d3-a456-426655440000', '2001:db8::7'"),
}


def written_by(server: Server, connection: Connection, name: TableName) -> bytes:
    """A finished file with changes of all kinds, some of them compressed where the server can."""
    extra, more = EXTRA[server.flavour]
    columns = COLUMNS | extra
    listed = ", ".join(column for column in columns if column != "id")
    with connection.cursor() as cursor:
        run = cursor.execute
        run(f"CREATE TABLE {name.quoted()} ({', '.join(f'{column} {kind}' for column, kind in columns.items())})")
        run("FLUSH BINARY LOGS")
        file = files_of(server)[-1]
        insert = f"INSERT INTO {name.quoted()} ({listed}) VALUES ({VALUES}{more})"
        run(insert)
        run(f"{insert}, ({VALUES}{more}), ({', '.join(['NULL'] * (len(columns) - 1))})")
        run(f"UPDATE {name.quoted()} SET name = upper(name), number = id")
        if server.flavour == "mysql":
            run("SET binlog_transaction_compression = ON")
            run(f"DELETE FROM {name.quoted()} WHERE id = 1")
            run("SET binlog_transaction_compression = OFF")
            run(f"UPDATE {name.quoted()} SET doc = JSON_SET(doc, '$.a[1]', 3)")
        else:
            run("SET GLOBAL log_bin_compress = ON")
            run(f"DELETE FROM {name.quoted()} WHERE id = 1")
            run("SET GLOBAL log_bin_compress = OFF")
        run("FLUSH BINARY LOGS")
    return Path(file.path).read_bytes()


def seed_of(data: bytes, flavour: str, table: Table, folder: Path) -> Seed:
    """Return the contents of an undamaged file, after checking that the oracle reads the same."""
    outcome = follow(log_files(folder, [data]), [table], Reading(max_bytes=1))
    assert outcome.error is None
    assert judge([data], outcome, [table]) is None
    assert len(outcome.rows) >= 8
    checksum, events = events_of(data)
    log = Log(tuple(events), checksum)
    assert len(log.data()) == len(data)
    return Seed(
        f"a {flavour} server's", flavour, log, tuple(outcome.rows), (4, *(s.hi.position for s in outcome.steps))
    )


def damage_it(server: Server, schema: str, folder: Path) -> None:
    connection = session(server)
    name = TableName(schema, "real")
    data = written_by(server, connection, name)
    table = definition(connection, name)
    seed = seed_of(data, server.flavour, table, folder)
    warm_up()
    betrayed = new_rows = 0
    for number in range(CASES):
        case = make_case(SEED, number, [seed], [table])
        verdict = check(case, folder)
        assert verdict.problem is None, f"{case}\n{verdict.kind}\n{verdict.problem}"
        betrayed += must_be_detected(case)
        new_rows += verdict.new_rows
    assert betrayed > CASES / 6
    assert new_rows > CASES / 50


@pytest.mark.timeout(1800)
def test_a_damaged_log_of_a_server_ends_in_typed_errors(
    source: Server, fresh_schema: FreshSchema, tmp_path: Path
) -> None:
    damage_it(source, fresh_schema(source), tmp_path)


@pytest.mark.timeout(1800)
def test_a_damaged_log_of_a_newer_mariadb_ends_in_typed_errors(
    mariadb11_source: Server, fresh_schema: FreshSchema, tmp_path: Path
) -> None:
    damage_it(mariadb11_source, fresh_schema(mariadb11_source), tmp_path)
