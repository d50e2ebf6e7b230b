"""JSON's DECIMALs may have 81 digits, 72 of them after the point: the log gives the text of the server."""

from random import Random

from airflow_provider_dm.engine.mysql.connection import query
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.json_text import mysql_literal
from testbed import Server
from tests.integration.binlog.reading import FreshSchema, definition, here, logged, raw_rows, session

COUNT = 600


def literal(dice: Random) -> str:
    """A number with a point somewhere among up to 81 digits, or as a product of others."""
    scale = dice.randint(0, 72)
    whole = "".join(dice.choices("0123456789", k=dice.randint(1, max(1, 81 - scale))))
    fraction = "".join(dice.choices(dice.choice(["0123456789", "09", "0"]), k=scale))
    number = f"{dice.choice(['', '-'])}{whole}{'.' if scale else ''}{fraction}"
    return dice.choice([number, number, f"{number} * 0.{dice.randint(1, 10**9)}", f"{number} / {dice.randint(1, 999)}"])


def test_every_decimal_is_read_as_the_server_shows_it(mysql_source: Server, fresh_schema: FreshSchema) -> None:
    dice = Random(39)
    connection = session(mysql_source)
    name = TableName(fresh_schema(mysql_source), "decimals")
    query(connection, f"CREATE TABLE {name.quoted()} (id INT PRIMARY KEY, j JSON)")
    edges = [f"0.{'1' * digits}" for digits in (38, 39, 40, 72)] + [f"0.{'0' * 71}1", "9" * 81, f"-0.{'0' * 40}"]
    values = [*edges, *(literal(dice) for _ in range(COUNT))]
    lo = here(connection)
    rows = ", ".join(f"({number}, CAST({value} AS JSON))" for number, value in enumerate(values))
    query(connection, "SET SESSION sql_mode = ''")  # products may be too large
    query(connection, f"INSERT IGNORE INTO {name.quoted()} VALUES {rows}")
    table = definition(connection, name)

    found = [change.after for change in logged(mysql_source, table, lo, here(connection))]

    shown = raw_rows(connection, table)
    assert found == shown
    assert max(len(text.partition(b".")[2]) for _, text in shown if text) == 72
    # And a literal made of that text is the same document again.
    for _, text in shown:
        assert text is not None
        made = f"CAST(CONVERT({mysql_literal(text).decode()}, JSON) AS CHAR)"
        assert query(connection, f"SELECT {made}") == [(text,)]
