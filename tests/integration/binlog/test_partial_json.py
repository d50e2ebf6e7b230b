"""Partial JSON updates: the differences in the log, applied to the document before, give the server's text."""

import json
from random import Random
from typing import Any, Final

import pytest

from airflow_provider_dm.engine.mysql.connection import query
from airflow_provider_dm.engine.mysql.identifiers import TableName
from testbed import Server
from tests.exactness.documents import document, draw
from tests.integration.binlog.reading import FreshSchema, definition, here, logged, raw_rows, session

UPDATES: Final = 150
STRANGE: Final = ("new", "neu é", "a.b", 'q"x', "$", "", " ", "\x01", "0x", "_ok", "ключ", "😀")


def a_path(dice: Random, node: Any) -> str:
    """Return a path to a place in the document, or beside one."""
    path = "$"
    for _ in range(dice.randint(1, 3)):
        if isinstance(node, dict):
            name = dice.choice(list(node)) if node and dice.random() < 0.8 else dice.choice(STRANGE)
            path, node = f"{path}.{json.dumps(name, ensure_ascii=dice.random() < 0.5)}", node.get(name)
        elif isinstance(node, list):
            index = dice.randint(0, len(node) + 1)
            path += dice.choice([f"[{index}]", f"[last-{index}]"])
            node = node[index] if index < len(node) else None
    return path


def an_update(dice: Random, node: Any) -> str:
    """An expression that MySQL can log as differences."""
    name = dice.choice(["json_set", "json_set", "json_replace", "json_remove"])
    expression = "j"
    for _ in range(dice.randint(1, 3)):
        path = "'" + a_path(dice, node).replace("\\", "\\\\").replace("'", "''") + "'"
        if path != "'$'":
            value = "" if name == "json_remove" else f", {document(dice, dice.randint(0, 2))}"
            expression = f"{name}({expression}, {path}{value})"
    return expression


@pytest.mark.parametrize("seed", range(2))
def test_differences_give_the_text_of_the_server(mysql_source: Server, fresh_schema: FreshSchema, seed: int) -> None:
    dice = Random(seed)
    connection = session(mysql_source)
    name = TableName(fresh_schema(mysql_source), "documents")
    query(connection, "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
    query(connection, f"CREATE TABLE {name.quoted()} (id INT PRIMARY KEY, a VARCHAR(9), j JSON, k JSON)")
    table = definition(connection, name)
    for _ in range(UPDATES):
        made = f"json_object('pad', repeat('x', {dice.choice([400, 70_000])}), 'a', {document(dice, 3)}, 'l', "
        made += f"json_array({document(dice, 2)}, 1, 2))"
        query(connection, f"REPLACE INTO {name.quoted()} VALUES (1, 'é', {made}, {draw(dice)})")
        ((found,),) = query(connection, f"SELECT j FROM {name.quoted()}")
        lo = here(connection)
        query(connection, f"UPDATE {name.quoted()} SET j = {an_update(dice, json.loads(found))}, a = 'b'")
        (change,) = logged(mysql_source, table, lo, here(connection))
        assert [change.after] == raw_rows(connection, table)
        assert change.before is not None
        assert change.before[2] == found
