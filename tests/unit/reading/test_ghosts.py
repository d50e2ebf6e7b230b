"""A ghost that was there when the task began is remembered as the ALTER between two definitions, or has a flaw."""

import pytest

from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.statements import AddColumn, AlterTable
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.ghosts import ghost_state

GHOST, T, LIKE = TableName("s", "__t_new"), TableName("s", "t"), TableName("s", "_t")
NOTHING = Tracker.of(Server(Flavour.MYSQL, (8, 4, 0)), {}, {})


def create(columns: str) -> str:
    return f"CREATE TABLE `x` ({columns}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"


MADE = create("`id` int NOT NULL, `v` int DEFAULT NULL, PRIMARY KEY (`id`)")
OF = create("`id` int NOT NULL, PRIMARY KEY (`id`)")
OTHER = create("`id` int NOT NULL, `w` int DEFAULT NULL, PRIMARY KEY (`id`)")
VIEW = "CREATE VIEW x AS SELECT 1"


@pytest.mark.parametrize(
    ("texts", "like", "why"),
    [
        ({T: OF}, (T,), ""),
        ({T: OF, LIKE: MADE}, (LIKE,), ""),
        ({T: OF, LIKE: OTHER}, (T,), ""),
        ({T: OF, LIKE: OF}, (), "may replace s.t or s._t"),
        ({T: OTHER}, (), "column v may be w under a new name"),
        ({T: VIEW}, (), "is not a CREATE TABLE"),
        ({}, (), "the task has no table"),
    ],
)
def test_the_state_of_a_ghost_follows_from_its_definition(
    texts: dict[TableName, str], like: tuple[TableName, ...], why: str
) -> None:
    found = ghost_state(NOTHING, GHOST, (T, LIKE), {GHOST: MADE, **texts})
    assert found.like == like
    assert why in found.flaw
    assert bool(found.flaw) == bool(why)
    if like == (T,):
        (text,) = found.statements
        alter = text.read()
        assert isinstance(alter, AlterTable)
        assert [type(one) for one in alter.specs] == [AddColumn]
