"""Random histories of DDL and rows while a copy may overwrite rows of others, which dies at random steps.

`DM_OVERWRITING_ROUNDS=50` plays that many for each pair of flavours.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pymysql
import pytest

from airflow_provider_dm.engine.copy import by_log, page
from airflow_provider_dm.engine.copy.migration import Finished
from airflow_provider_dm.engine.sync.following import Following
from airflow_provider_dm.engine.sync.loop import Loop
from airflow_provider_dm.engine.target.identity import Fence
from tests.integration.copy.altering import Kit
from tests.integration.copy.test_ddl_overwriting import overwriting

ROUNDS: Final = int(os.environ.get("DM_OVERWRITING_ROUNDS", "1"))
STATEMENTS: Final = 40
TABLES: Final = ("a", "b", "c", "d", "e", "nokey")
SETUP: Final = (
    "CREATE TABLE c (id int PRIMARY KEY, v varchar(40), x int)",
    "INSERT INTO c SELECT id, v, id FROM a",
    "CREATE TABLE d LIKE c",
    "INSERT INTO d SELECT * FROM c WHERE id > 3",
    "CREATE TABLE e LIKE b",
    "INSERT INTO e SELECT * FROM b",
)
DEATHS: Final = ((by_log, "_doubt"), (by_log, "_go_on"), (Following, "_commit"), (Loop, "_epoch"), (Loop, "_ddl"))


class Dies(Exception):
    """A death of the run."""


@dataclass
class Writer:
    """Somebody who writes to the source: what it refuses did not happen."""

    kit: Kit
    chance: random.Random
    left: int = STATEMENTS
    number: int = 1_000
    lock: threading.Lock = field(default_factory=threading.Lock)

    def some(self) -> None:
        """Write a little, or nothing."""
        with self.lock:
            for _ in range(min(self.left, self.chance.choice([0, 0, 1, 2, 4]))):
                self.left -= 1
                for statement in self.next():
                    with suppress(pymysql.err.MySQLError):
                        self.kit.write((statement,))

    def next(self) -> list[str]:
        self.number += 10
        table, other, draw = self.chance.choice(TABLES), self.chance.choice(TABLES), self.chance.random()
        asked = (
            "SELECT column_name FROM information_schema.columns WHERE table_schema = "
            f"'{self.kit.schema}' AND table_name = '{table}' ORDER BY ordinal_position"
        )
        columns = [str(name) for (name,) in self.kit.source.sql(asked)]
        plain = [name for name in columns if name != "id"]
        if not plain:
            keyed = f"CREATE TABLE {table} (id int PRIMARY KEY, v varchar(40), w int)"
            return ["CREATE TABLE nokey (v varchar(40))" if table == "nokey" else keyed]
        if draw < 0.55:
            rows = self.keyed(table, plain) if "id" in columns else self.keyless(table, plain)
            return [self.chance.choice(rows) for _ in range(3)]
        return [self.chance.choice(self.altered(table, plain))] if draw < 0.85 else self.moved(table, other)

    def keyed(self, table: str, plain: list[str]) -> list[str]:
        number, small, column = self.number, self.chance.randint(1, 14), self.chance.choice(plain)
        return [
            f"INSERT INTO {table} (id) VALUES ({small})",
            f"INSERT INTO {table} (id) VALUES ({number})",
            f"DELETE FROM {table} WHERE id = {small}",
            f"UPDATE {table} SET id = {number + 1} WHERE id = {small}",
            f"UPDATE {table} SET {column} = {number} WHERE id % 3 = {small % 3}",
            f"UPDATE {table} SET id = id - 30 WHERE id > 30 ORDER BY id",
        ]

    def keyless(self, table: str, plain: list[str]) -> list[str]:
        small, column = self.chance.randint(1, 9), self.chance.choice(plain)
        return [
            f"INSERT INTO {table} ({column}) VALUES ({small}), ({small})",
            f"DELETE FROM {table} WHERE {column} = {small} LIMIT 1",
            f"UPDATE {table} SET {column} = {small} WHERE {column} = {small + 1}",
        ]

    def altered(self, table: str, plain: list[str]) -> list[str]:
        new, column, first, last = f"c{self.number}", self.chance.choice(plain), plain[0], plain[-1]
        does = [
            f"ADD {new} int NOT NULL DEFAULT 7 FIRST",
            f"CHANGE {column} {new} varchar(50)",
            f"CHANGE {column} {new} varchar(60), ADD {column} int DEFAULT 3",
            f"DROP COLUMN {column}, ADD {new} varchar(40) DEFAULT 'again'",
            f"DROP COLUMN {column}",
            f"MODIFY {column} varchar(80)",
            f"ADD KEY k{self.number} ({column})",
            "MODIFY id bigint",
            f"CHANGE {first} {last} varchar(70), CHANGE {last} {first} varchar(70)",
            *([] if table == "nokey" else [f"ADD UNIQUE KEY u{self.number} ({column})"]),
        ]
        return [*(f"ALTER TABLE {table} {one}" for one in does), f"OPTIMIZE TABLE {table}", f"TRUNCATE TABLE {table}"]

    def moved(self, table: str, other: str) -> list[str]:
        new = f"{table}_{self.number}"
        swapped = f"RENAME TABLE {table} TO tmp, {other} TO {table}, tmp TO {other}"
        rotated = f"RENAME TABLE {table} TO {new}o, {new} TO {table}"
        return self.chance.choice(
            [
                [swapped] if "nokey" not in (table, other) else [f"DROP TABLE {table}"],
                [f"DROP TABLE {table}"],
                [f"CREATE TABLE {new} LIKE {table}", f"INSERT INTO {new} SELECT * FROM {table}", rotated],
                [f"RENAME TABLE {table} TO {new}"],
            ]
        )


def _dying(step: Callable[..., Any], chance: random.Random) -> Callable[..., Any]:
    def stepped(*arguments: Any, **named: Any) -> Any:
        if chance.random() < 0.07:
            raise Dies
        found = step(*arguments, **named)
        if chance.random() < 0.07:
            raise Dies
        return found

    return stepped


def _until_done(step: Callable[[], object]) -> object:
    for _ in range(60):
        try:
            return step()
        except Dies:
            continue
    raise AssertionError("it never ends")


@pytest.fixture
def writer(kit: Kit, seed: int, monkeypatch: pytest.MonkeyPatch) -> Writer:
    overwriting(kit).write(SETUP)
    chance, writer = random.Random(f"deaths {seed}"), Writer(kit, random.Random(f"history {seed}"))
    reads, applies = page.PageReader.page, kit.migration.apply_log
    assert applies is not None

    def read(*arguments: Any) -> page.Page:
        writer.some()
        found = reads(*arguments)
        writer.some()
        return found

    def applying(fence: Fence) -> bool:
        writer.some()
        found = applies(fence)
        writer.some()
        return found

    for name in "FIRST_ROWS", "MOST_ROWS":
        monkeypatch.setattr(page, name, 2)
    monkeypatch.setattr(page.PageReader, "page", read)
    kit.migration.apply_log = applying
    for where, step in DEATHS:
        monkeypatch.setattr(where, step, _dying(getattr(where, step), chance))
    return writer


@pytest.mark.by_turns
@pytest.mark.parametrize("seed", range(41, 41 + ROUNDS))
def test_whatever_happens_both_sides_end_the_same(kit: Kit, writer: Writer) -> None:
    assert isinstance(_until_done(kit.migration.go), Finished)
    writer.left = 0
    _until_done(kit.sync)
    kit.check()
