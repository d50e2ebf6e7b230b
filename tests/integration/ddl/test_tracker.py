"""Servers and the model of their tables: after each statement that a server takes, both have the same.

Random DDL is played for `DM_DDL_STATEMENTS` statements (200), from the seed `DM_DDL_SEED`; a larger number for more
certainty, as in `DM_DDL_STATEMENTS=20000 pytest tests/integration/ddl/test_tracker.py --timeout=0`.
"""

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import SessionDefaults, server_of
from airflow_provider_dm.engine.ddl.statements import CreateTable, ForeignKey
from airflow_provider_dm.engine.ddl.tracker import Tracker, difference_of_copy
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import create_statement, read_tables
from testbed import Server
from tests.integration.binlog.reading import FreshSchema
from tests.integration.ddl.oracle import CANNOT_TRACK, COMPARED, Oracle
from tests.integration.ddl.random_ddl import RandomDdl, settings
from tests.unit.ddl.table_of_statements import MODES, entries

STATEMENTS: Final = int(os.environ.get("DM_DDL_STATEMENTS", "200"))
SEED: Final = int(os.environ.get("DM_DDL_SEED", "20250301"))
IN_ONE_SCHEMA: Final = 60
REFUSED: Final = (
    "the members of (enum|set) .* are not known in .*",
    "CONVERT TO CHARACTER SET and .* in one statement",
    "CHARACTER SET DEFAULT means .*",
    "a column is changed twice in one statement",
    "a unique key over a geometry is not supported",
    "the prefix of the new column .* in the key .* is not known",
    "the maximum length of a unique key of the engine .* is not known",
)
"""What the model refuses of random DDL, and why; all else it must follow."""
MOST_REFUSED: Final = 0.06
MIGRATIONS: Final = Path(__file__).with_name("migrations.txt")


def test_random_ddl(source: Server, fresh_schema: FreshSchema) -> None:
    play(Oracle(source, fresh_schema(source)), STATEMENTS)


def test_random_ddl_where_collations_have_new_defaults(mariadb11_source: Server, fresh_schema: FreshSchema) -> None:
    play(Oracle(mariadb11_source, fresh_schema(mariadb11_source)), STATEMENTS // 3)


def play(oracle: Oracle, statements: int) -> None:
    """Play random DDL in one schema after the other, which is emptied where the model does not follow."""
    chance = random.Random(SEED)
    while oracle.outcomes.total() < statements:
        oracle.begin(**settings(chance, oracle.upstream))
        ddl = RandomDdl(chance.random(), oracle.upstream, oracle.schema, foreign_keys=chance.random() < 0.3)
        for _ in range(IN_ONE_SCHEMA):
            if oracle.run(ddl.statement(oracle.tracker)).startswith(CANNOT_TRACK):
                break
    refused = [one.removeprefix(CANNOT_TRACK) for one in oracle.outcomes.elements() if one.startswith(CANNOT_TRACK)]
    assert [one for one in refused if not any(re.fullmatch(reason, one) for reason in REFUSED)] == []
    assert oracle.outcomes[COMPARED] > statements / 4
    assert len(refused) < MOST_REFUSED * max(oracle.outcomes[COMPARED], 100)


def migrations() -> Iterator[tuple[str, list[str]]]:
    """The blocks of the file: who sends them, and the statements."""
    for block in MIGRATIONS.read_text(encoding="utf-8").split("\n## ")[1:]:
        head, _, rest = block.partition("\n")
        yield head, [line for line in rest.splitlines() if line]


@pytest.mark.parametrize(("tool", "statements"), list(migrations()), ids=[tool for tool, _ in migrations()])
def test_statements_that_online_ddl_tools_send(
    source: Server, fresh_schema: FreshSchema, tool: str, statements: list[str]
) -> None:
    oracle = Oracle(source, fresh_schema(source))
    oracle.begin(foreign_key_checks=0)
    for statement in statements:
        outcome = oracle.run(statement)
        assert not outcome.startswith(CANNOT_TRACK), (statement, outcome)
        oracle.compare(set(oracle.tracker.names()))
    taken = oracle.outcomes[COMPARED] / len(statements)
    assert taken > (0.8 if tool != "MariaDB" or oracle.upstream.mariadb else 0)


def test_the_statements_of_the_table(source: Server, fresh_schema: FreshSchema) -> None:
    oracle = Oracle(source, fresh_schema(source))
    for entry in entries():
        modes = [name for name, bit in MODES.items() if entry.sql_mode & bit]
        if (
            not entry.expected.startswith("CreateTable(shop.")
            or OTHER.search(entry.sql)
            or set(modes) & {"MSSQL", "ORACLE"}
        ):
            continue
        oracle.begin(sql_mode=",".join(["NO_ENGINE_SUBSTITUTION", *modes]), foreign_key_checks=0)
        sql = entry.sql.replace("`shop`", f"`{oracle.schema}`").replace('"shop"', f"`{oracle.schema}`")
        outcome = oracle.run(sql.replace("shop.", f"{oracle.schema}."))
        assert not outcome.startswith(CANNOT_TRACK), (entry.sql, outcome)
    assert oracle.outcomes[COMPARED] > 60


OTHER: Final = re.compile(r"START TRANSACTION|ENGINE=MERGE|/\*M!|80023 INVISIBLE|x'41ff'")
"""What a server writes to its log and does not take, what each flavour reads in another way, and a default that
MariaDB shows as bytes that are no text."""


def test_the_text_of_a_table_makes_the_same_table(source: Server, fresh_schema: FreshSchema) -> None:
    oracle, other = Oracle(source, fresh_schema(source)), fresh_schema(source, suffix="_again")
    oracle.begin(foreign_key_checks=0)
    for _, statements in migrations():
        for statement in statements[:8]:
            oracle.run(statement)
    for name in sorted(oracle.tracker.names()):
        constraints = oracle.tracker.definition(name).constraints
        if any(isinstance(one, ForeignKey) for one in constraints):
            continue  # a foreign key's name is taken in its schema
        copy = TableName(other, name.table)
        with oracle.writer.cursor() as cursor:
            cursor.execute(f"USE `{other}`")
            cursor.execute(oracle.tracker.create_sql(name))
        (made,) = read_tables(oracle.reader, [copy]).values()
        assert (made.columns, made.unique_keys) == (
            oracle.tracker.table(name).columns,
            oracle.tracker.table(name).unique_keys,
        )


SHOWN: Final = r"""CREATE TABLE `real` (id int PRIMARY KEY, a varchar(20) DEFAULT 'x', `b c` int unsigned, j json,
    g varchar(200) AS (concat(a, 'B c', 'it''s "x"', 'd\\e', '', '(x)', '\n', x'41')), t timestamp(3) NULL,
    h int AS ((`b c` + 1) * 2), k varchar(20) AS (if(a LIKE 'x\%', 'Y', NULL)) STORED, UNIQUE KEY u (a(5), `b c`))"""


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("", "", None),
        ("DEFAULT 'x'", "DEFAULT 'y'", None),
        ("'B c'", "'b c'", "the column g"),
        ("`b c` + 1) * 2", "`b c` + 1) * 3", "the column h"),
        ("varchar(20)", "varchar(21)", "the column a"),
        ("(5)", "(6)", "its unique keys"),
        ("`t`", "`s`", "its columns, or their order"),
    ],
)
def test_the_shown_text_of_a_table_makes_a_copy(
    source: Server, fresh_schema: FreshSchema, before: str, after: str, what: str | None
) -> None:
    real = TableName(fresh_schema(source), "real")
    source.sql(SHOWN, database=real.schema)
    with source.connect() as connection:
        tracker = Tracker.of(server_of(connection), {real: create_statement(connection, real)}, {})
        text = create_statement(connection, real).replace("`real`", "`_real_new`", 1).replace(before, after, 1)
    created = parse(text, 0, real.schema)
    assert isinstance(created, CreateTable)
    assert difference_of_copy(tracker, real, created, SessionDefaults(explicit_timestamp_defaults=True)) == what
