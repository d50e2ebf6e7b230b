"""What becomes of a target table whose source is copied again."""

from __future__ import annotations

import pytest

from airflow_provider_dm.engine.copy.renewal import Found, Shard, Sides, form_of, renewed, renewed_together
from airflow_provider_dm.engine.ddl.create_like import CannotCreateTarget
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.survey import SourceTable
from airflow_provider_dm.engine.rules.mapping import TargetTableMismatch
from airflow_provider_dm.engine.schema.model import Table

NAME = TableName("shop", "t")
MYSQL, MARIADB = Server(Flavour.MYSQL, (9, 7, 0)), Server(Flavour.MARIADB, (10, 11, 0))
SIDES = Sides(Flavour.MYSQL, MARIADB)
OLD = "`id` int NOT NULL, `v` varchar(9) DEFAULT '0', PRIMARY KEY (`id`)"
NEW = "`id` int NOT NULL, `w` int DEFAULT NULL, PRIMARY KEY (`id`)"


def shown(inside: str) -> str:
    return f"CREATE TABLE `t` ({inside}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"


def model(server: Server, create: str) -> Table:
    return Tracker.of(server, {NAME: create}, {}).table(NAME)


def source(inside: str) -> SourceTable:
    return SourceTable(model(MYSQL, shown(inside)), NAME, 5, "utf8mb4_bin", shown(inside))


def target(inside: str) -> Found:
    return Found(model(MARIADB, shown(inside)), shown(inside))


def words(new: str, found: Found | None, old: str | None = OLD) -> list[str]:
    before = None if old is None else (model(MYSQL, shown(old)), shown(old))
    plan = renewed(source(new), before, found, SIDES)
    return [" ".join(one.sql.split()[:2]) for one in (plan.removal, plan.creation) if one is not None]


def test_what_is_not_there_is_created() -> None:
    assert words(NEW, None) == ["CREATE TABLE"]
    assert words(NEW, None, old=None) == ["CREATE TABLE"]


def test_what_the_task_has_created_is_created_anew() -> None:
    as_mariadb_shows_it = OLD.replace(" int", " int(11)")
    assert words(NEW, target(as_mariadb_shows_it)) == ["DROP TABLE", "CREATE TABLE"]


@pytest.mark.parametrize("made", [f"{NEW}, KEY mine (`w`)", NEW.replace(" int DEFAULT", " bigint DEFAULT"), NEW])
def test_what_a_person_has_made_and_fits_is_emptied(made: str) -> None:
    assert words(NEW, target(made)) == ["TRUNCATE TABLE"]


def test_what_the_task_has_never_filled_is_not_emptied() -> None:
    assert words(NEW, target(NEW), old=None) == []
    with pytest.raises(TargetTableMismatch):
        words(NEW, target(OLD), old=None)


def test_what_a_person_has_made_and_does_not_fit_is_that_persons_to_alter() -> None:
    with pytest.raises(TargetTableMismatch) as refused:
        words(NEW, target(f"{OLD}, KEY mine (`v`)"))
    assert "ADD COLUMN `w` int" in refused.value.workaround()


def test_a_form_that_is_not_created_takes_a_person() -> None:
    checked = f"{NEW}, CHECK (`w` > 1)"
    with pytest.raises(CannotCreateTarget):
        words(checked, None)
    with pytest.raises(TargetTableMismatch):
        words(checked, target(OLD.replace(" int", " int(11)")))
    assert words(checked, target(NEW)) == ["TRUNCATE TABLE"]


def merged(found: Found | None, *shards: tuple[str, str | None]) -> list[str]:
    plan = renewed_together(
        [
            Shard(source(new), None if old is None else (model(MYSQL, shown(old)), shown(old)), SIDES)
            for new, old in shards
        ],
        found,
    )
    return [" ".join(one.sql.split()[:2]) for one in (plan.removal, plan.creation) if one is not None]


def test_a_merged_table_was_created_after_one_of_its_shards() -> None:
    made = target(OLD.replace(" int", " int(11)"))
    assert merged(made, (NEW, f"{OLD}, KEY other (`v`)"), (NEW, OLD)) == ["DROP TABLE", "CREATE TABLE"]
    assert merged(None, (NEW, OLD), (NEW, None)) == ["CREATE TABLE"]
    assert merged(target(f"{NEW}, KEY mine (`w`)"), (NEW, None), (NEW, OLD)) == ["TRUNCATE TABLE"]
    with pytest.raises(TargetTableMismatch):
        merged(target(f"{OLD}, KEY mine (`v`)"), (NEW, OLD), (OLD, OLD))


def test_forms_are_those_of_the_target_and_texts_those_of_one_flavour() -> None:
    def form(inside: str, sides: Sides = SIDES) -> tuple[object, object]:
        return form_of(shown(inside), model(MYSQL, shown(inside)), "utf8mb4_bin", sides)

    other = Sides(Flavour.MARIADB, MARIADB)
    assert form(OLD)[0] == form(OLD.replace(" int", " int(11)"), other)[0]
    assert form(OLD)[1] != form(OLD, other)[1]
    assert form(OLD)[0] == form(OLD.replace("'0'", "'1'"))[0]
    assert form(OLD)[1] != form(OLD.replace("'0'", "'1'"))[1]
    assert form(OLD)[0] != form(f"{OLD}, KEY k (`v`)")[0]
