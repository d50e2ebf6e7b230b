"""What a target table has to show of the DDL that a source table has made."""

from __future__ import annotations

import pytest

from airflow_provider_dm.engine.copy.shown import Form
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName

NAME = TableName("s", "t")
SERVER = Server(Flavour.MYSQL, (8, 0, 30))
BEFORE = "id int, v int, KEY k (v)"


def form(columns: str) -> Form:
    return Form.of(Tracker.of(SERVER, {NAME: f"CREATE TABLE t ({columns}) COLLATE utf8mb4_bin"}, {}).definition(NAME))


@pytest.mark.parametrize(
    ("now", "there", "shown"),
    [
        (BEFORE, BEFORE, True),
        ("id int, v int DEFAULT 3, KEY k (v)", BEFORE, True),  # each server writes defaults in its own way
        ("id int, v int, w int, KEY k (v)", BEFORE, False),
        ("id int, v int, w int, KEY k (v)", "id int, v int, w bigint, KEY k (v)", False),
        ("id int, v int, w int, KEY k (v)", "id int, v int, own int, w int, KEY k (v), KEY more (v, w)", True),
        ("id int", BEFORE, False),
        ("id int", "id int", True),
        ("id int, v bigint, KEY k (v)", BEFORE, False),
        ("id int, v int, KEY k (v, id)", BEFORE, False),
        ("id int, v int, KEY k (v), UNIQUE KEY u (v)", BEFORE, False),
        ("v int, id int, KEY k (v)", BEFORE, False),
        ("v int, id int, KEY k (v)", "v int, own int, id int, KEY k (v)", True),
    ],
)
def test_what_was_altered_has_to_show(now: str, there: str, shown: bool) -> None:
    assert (form(there).lacks(form(BEFORE), form(now)) == "") == shown


def test_what_was_alike_has_to_be_alike() -> None:
    there, now = form("id int, v int, w int, x int"), form("id int, v int, w int")
    assert there.lacks(there, now)
    assert not there.lacks(form("id int, v int"), now)


def test_where_nothing_is_created_types_and_unique_keys_count() -> None:
    def rows(columns: str) -> Form:
        tables = {NAME: f"CREATE TABLE t ({columns}) COLLATE utf8mb4_bin"}
        return Form.of_rows(Tracker.of(SERVER, tables, {}).table(NAME))

    before, now = rows("id int, v varchar(9)"), rows("id int, v varchar(20), UNIQUE KEY u (id)")
    assert before.lacks(before, now)
    assert rows("id int, v varchar(20)").lacks(before, now)
    assert not rows("id int, v varchar(20) NOT NULL, w int, KEY w (w), UNIQUE KEY other (id)").lacks(before, now)
