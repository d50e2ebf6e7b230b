"""Unique values that are given up and taken, within and across transactions, under every form of key that target and
source may have. Which values are equal, the target decides: these are real servers.
"""

import random
import re
from contextlib import suppress
from dataclasses import dataclass

import pymysql
import pytest

from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.plan.bucket import RUN
from tests.integration.sync.conftest import Strike, SyncKit, strike_at_random

SMALL = EpochSize(limit=30_000, one_task=4_000, smallest=4_000, largest=30_000)
"""Some epochs are one task, some are exchanged."""
WORDS = (
    "abc",
    "ABC",
    "äbc",
    "abc ",
    "a\u0308bc",
    "a",
    "á",
    "A ",
    "s",
    "ß",
    "ss",
    "SS",
    "i",
    "İ",
    "ı",
    "I",
    "カ",
    "ガ",
    "か",
)
MORE_WORDS = (
    *WORDS,
    "😀",
    "😂",
    "",
    " ",
    "a\u200bbc",
    "ab\u00adc",
    "각",
    "가\u11a8",
    "\u1100\u1161\u11a8",
    "𝐚",
    "①",
    "1",
)
SPELLINGS = ("abc", "ABC", "äbc", "a\u0308bC", "ss", "ß", "SS")
"""Spellings of two words, of which MySQL and MariaDB think the same."""
LATIN = ("ä", "ae", "AE", "a", "Ä", "ß", "ss", "s", "é", "e", "E ", "ü", "y", "ue")
NUMBERS = tuple(map(str, range(6)))
KEYS = tuple(str(number * RUN) for number in range(6))
"""Each in another bucket."""
NOT_IN_TIDB = r"CHARACTER SET (ucs2|latin1) COLLATE (ucs2|latin1_german2)_\w+"
BYTES = ("X'61'", "X'6100'", "X'61000000'", "X'4100'", "X''", "X'6120'")


@dataclass(frozen=True)
class Form:
    """A table of both sides. `values`: of each column, as the source may have them; the first column is the key or the
    nearest to one."""

    source: str
    values: dict[str, tuple[str, ...]]
    target: str = ""
    nullable: tuple[str, ...] = ()

    def sql(self, flavour: str, *, target: bool) -> str:
        nopad = "utf8mb4_unicode_520_nopad_ci" if flavour == "mariadb" else "utf8mb4_0900_ai_ci"
        general = "COLLATE utf8mb4_general_ci"
        expression = ", UNIQUE KEY f ((u + 1), (v * 2))" if flavour == "mysql" else ""
        definition = ((target and self.target) or self.source).replace(" EXPRESSION", expression)
        definition = definition.replace("NOPAD", f"COLLATE {nopad}").replace("CI", general)
        return re.sub(NOT_IN_TIDB, general, definition) if flavour == "tidb" else definition

    def value(self, chance: random.Random, column: str) -> str:
        if column in self.nullable and chance.random() < 0.3:
            return "NULL"
        one = chance.choice(self.values[column])
        return one if one.startswith("X'") else f"'{one}'"


FORMS = {
    "ci_unique": Form(
        "id int PRIMARY KEY, u varchar(12) CI, v int, UNIQUE KEY u (u)",
        {"id": KEYS, "u": MORE_WORDS, "v": NUMBERS},
        nullable=("u",),
    ),
    "ci_key": Form(
        "c varchar(12) COLLATE utf8mb4_unicode_ci PRIMARY KEY, l varchar(9) CHARACTER SET latin1",
        {"c": SPELLINGS, "l": LATIN},
        nullable=("l",),
    ),
    "no_pad": Form("c varchar(12) NOPAD PRIMARY KEY, v int", {"c": SPELLINGS, "v": NUMBERS}),
    "padded": Form("c char(9) COLLATE utf8mb4_bin PRIMARY KEY, v int", {"c": MORE_WORDS, "v": NUMBERS}),
    "german": Form(
        "g varchar(9) CHARACTER SET latin1 COLLATE latin1_german2_ci PRIMARY KEY, v int",
        {"g": LATIN, "v": NUMBERS},
        nullable=("v",),
    ),
    "wide": Form(
        "c varchar(9) CHARACTER SET ucs2 COLLATE ucs2_general_ci NOT NULL UNIQUE, v int", {"c": WORDS, "v": NUMBERS}
    ),
    "prefix": Form(
        "id int PRIMARY KEY, p varchar(12) CI, b varbinary(9), UNIQUE KEY p (p(1)), UNIQUE KEY b (b(2))",
        {"id": KEYS, "p": MORE_WORDS, "b": BYTES},
        nullable=("p", "b"),
    ),
    "prefix_key": Form("p varchar(12) CI, v int, PRIMARY KEY (p(2))", {"p": MORE_WORDS, "v": NUMBERS}),
    "nulls": Form(
        "id int PRIMARY KEY, a int, b varchar(9) CI, UNIQUE KEY ab (a, b)",
        {"id": KEYS, "a": NUMBERS[:2], "b": WORDS[:6]},
        nullable=("a", "b"),
    ),
    "computed": Form(
        "id int PRIMARY KEY, u int, t varchar(9) CI, g int AS (u % 4) STORED, UNIQUE KEY g (g), UNIQUE KEY gt (g, t)",
        {"id": KEYS, "u": NUMBERS, "t": WORDS},
        nullable=("u",),
    ),
    "functional": Form(
        "id int PRIMARY KEY, u int UNIQUE, v int EXPRESSION",
        {"id": KEYS, "u": NUMBERS, "v": NUMBERS},
        nullable=("u", "v"),
    ),
    "octets": Form("k binary(4) PRIMARY KEY, u varbinary(4) UNIQUE", {"k": BYTES, "u": BYTES}, nullable=("u",)),
    "pair": Form(
        "a int, c varchar(9) CI, v int, PRIMARY KEY (a, c), UNIQUE KEY v (v)",
        {"a": NUMBERS[:2], "c": WORDS, "v": NUMBERS},
        nullable=("v",),
    ),
    "more_there": Form(
        "id int PRIMARY KEY, u varchar(9) CI UNIQUE, v int",
        {"id": KEYS, "u": WORDS, "v": NUMBERS},
        "id int PRIMARY KEY, u varchar(9) CI UNIQUE, v int, own int UNIQUE, n bigint AUTO_INCREMENT UNIQUE,"
        " at timestamp NOT NULL DEFAULT NOW(), UNIQUE KEY uv (u, v), UNIQUE KEY vo (v, id, own)",
        ("u",),
    ),
    "another_key": Form(
        "id int PRIMARY KEY, c varchar(9) CI NOT NULL UNIQUE, v int UNIQUE",
        {"id": KEYS, "c": WORDS, "v": NUMBERS},
        "v int UNIQUE, c varchar(9) CI PRIMARY KEY, id int NOT NULL",
        ("v",),
    ),
    "keyed_there": Form(
        "c varchar(9) CI UNIQUE, v int",
        {"c": WORDS, "v": NUMBERS},
        "c varchar(9) CI NOT NULL PRIMARY KEY, v int, UNIQUE KEY cv (c, v)",
    ),
    "keyless_there": Form(
        "c varchar(9) CI PRIMARY KEY, v int", {"c": WORDS, "v": NUMBERS}, "c varchar(9) CI, v int, own int DEFAULT 3"
    ),
    "counted_there": Form(
        "c varchar(9) CI, v int", {"c": WORDS, "v": NUMBERS}, "n int AUTO_INCREMENT PRIMARY KEY, c varchar(9) CI, v int"
    ),
}


def create(kit: SyncKit) -> None:
    kit.tables = tuple(FORMS)
    _ = kit.first_file
    for name, form in FORMS.items():
        kit.source.sql(f"CREATE TABLE {name} ({form.sql(kit.source.flavour, target=False)})", database=kit.schema)
        kit.target.sql(f"CREATE TABLE {name} ({form.sql(kit.target.flavour, target=True)})", database=kit.schema)


def statements(chance: random.Random) -> list[str]:
    """Return what one transaction does to one table: neighbours may give up what the next one takes."""
    table, form = chance.choice(list(FORMS.items()))
    key, *_ = columns = list(form.values)
    one, other = form.value(chance, key), form.value(chance, key)
    column = chance.choice(columns)
    value = form.value(chance, column)
    row = ", ".join(form.value(chance, name) for name in columns)
    insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({row})"
    update = f"UPDATE {table} SET {column} = {value} WHERE {key} = {one} LIMIT 1"
    match chance.randrange(6):
        case 0 | 1:
            return [insert]
        case 2:
            return [update]
        case 3:
            return [f"DELETE FROM {table} WHERE {key} = {one} LIMIT 1", insert]
        case 4:  # a value is handed over
            return [f"DELETE FROM {table} WHERE {column} = {value}", update]
        case _:  # what has one key gets another, and back
            there, back = form.value(chance, key), f"UPDATE {table} SET {key} = {one} WHERE {key} = {other} LIMIT 1"
            return [f"DELETE FROM {table} WHERE {key} = {there}", back.replace(one, there, 1), back]


def write(kit: SyncKit, seed: int, transactions: int) -> int:
    """Statements that the source refuses are left out. Return how many it has done."""
    chance, done = random.Random(seed), 0
    with kit.source.connect(database=kit.schema, autocommit=False) as connection, connection.cursor() as cursor:
        for _ in range(transactions):
            for statement in [one for _ in range(chance.randint(1, 4)) for one in statements(chance)]:
                with suppress(pymysql.err.IntegrityError):
                    done += cursor.execute(statement)
            connection.commit() if chance.random() < 0.9 else connection.rollback()
    return done


def differences(kit: SyncKit) -> list[str]:
    """The source's columns, on both sides, as bytes; TiDB has another character set than some of them."""
    found = []
    for name, form in FORMS.items():
        shown = "HEX(CONVERT({} USING utf8mb4))" if "CHARACTER SET" in form.source else "HEX({})"
        columns = ", ".join(map(shown.format, (*form.values, *(("g",) if "g int AS" in form.source else ()))))
        rows = [
            sorted(server.sql(f"SELECT {columns} FROM {name}", database=kit.schema), key=repr)
            for server in (kit.source, kit.target)
        ]
        if rows[0] != rows[1]:
            found.append(f"{name}: {rows[0]} became {rows[1]}")
    return found


def test_unique_values_are_handed_over_under_every_form_of_key(kit: SyncKit, monkeypatch: pytest.MonkeyPatch) -> None:
    create(kit)
    kit.begin()
    strikes = strike_at_random(monkeypatch, 5, 0.01, batch_rows=1)
    for seed in range(2):
        assert write(kit, seed, 90) > 100
        goal = str(kit.upstream())
        while True:
            try:
                kit.sync(until=goal, size=SMALL)
                break
            except Strike:
                pass

        assert differences(kit) == []
    assert strikes
