"""A sample's table on a server, and rows in it, for tests that move rows by other means than a journey."""

from collections.abc import Iterable, Sequence
from random import Random

from testbed import Server
from tests.exactness.sorts import Sample

LENIENT = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'"


def create(server: Server, schema: str, sample: Sample, *, there: bool = False) -> None:
    run(server, schema, [f"CREATE TABLE `{sample.name}` {sample.definition(server.flavour, there=there)}"])


def fill(server: Server, schema: str, sample: Sample, dice: Random, rows: int) -> None:
    names = ", ".join(name for name, _ in sample.given())
    values = ", ".join(f"({', '.join(row)})" for row in sample.rows(dice, rows))
    run(server, schema, [f"INSERT INTO `{sample.name}` ({names}) VALUES {values}"])


def change(server: Server, schema: str, sample: Sample, dice: Random, ids: Iterable[int]) -> None:
    """Gives these rows new values, one statement for each."""
    run(server, schema, [f"UPDATE `{sample.name}` SET {_assignments(sample, dice)} WHERE id = {one}" for one in ids])


def run(server: Server, schema: str, statements: Sequence[str]) -> None:
    with server.connect(database=schema) as connection, connection.cursor() as cursor:
        cursor.execute(LENIENT)
        for statement in statements:
            cursor.execute(statement)


def _assignments(sample: Sample, dice: Random) -> str:
    return ", ".join(f"{name} = {sort.value(dice)}" for name, sort in sample.given())
