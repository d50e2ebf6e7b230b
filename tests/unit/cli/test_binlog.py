"""`dmctl binlog`: what is stored, and what it answers."""

import json
from typing import Any

import pytest

from airflow_provider_dm.cli.main import main
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, OperatorState, SqlPattern, Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location

HERE = Location("mysql-bin.000003", 400, "", 2, "u")
DDL = "ALTER TABLE shop.t ADD COLUMN c int"


@pytest.fixture
def store(store: MetaStore) -> MetaStore:
    """One task: `one` is paused by a DDL, `two` syncs."""
    for source in ("one", "two"):
        store.put_subtask("shop", source, unit=Unit.SYNC, stage=Stage.RUNNING, needed=HERE, applied=HERE)
    store.put_subtask_error("shop", "one", {"ErrCode": "DM-6032"}, at=HERE)
    return store


class Dmctl:
    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url, self.capsys = url, capsys

    def __call__(self, *words: str) -> tuple[int, dict[str, Any]]:
        code = main([*words, "--meta-url", self.url, "--json"])
        (line,) = self.capsys.readouterr().out.splitlines()
        return code, json.loads(line)


@pytest.fixture
def dmctl(meta_url: str, store: MetaStore, capsys: pytest.CaptureFixture[str]) -> Dmctl:
    return Dmctl(meta_url, capsys)


def test_skip_means_where_the_source_is_paused(dmctl: Dmctl, store: MetaStore) -> None:
    code, document = dmctl("binlog", "skip", "shop", "-s", "one")

    (answer,) = document["sources"]
    assert (code, document["op"], document["result"], answer["source"]) == (0, "Skip", True, "one")
    assert answer["operator"]["binlogPos"] == "mysql-bin.000003:400"
    (stored,) = store.operators("shop", "one")
    assert (stored.kind, stored.place, stored.state) == (OperatorKind.SKIP, HERE, OperatorState.WAITING)


def test_without_a_source_all_sources_with_an_error_are_selected(dmctl: Dmctl, store: MetaStore) -> None:
    """A statement may be given without quotes, as in DM."""
    for words in ([f"{DDL};"], [*DDL.split(" "), "-s", "one"]):
        _, document = dmctl("binlog", "replace", "shop", *words)
        assert [one["source"] for one in document["sources"]] == ["one"]
        (stored,) = store.operators("shop", "one")
        assert stored.statements == (DDL,)


def test_a_source_without_an_error_is_refused_and_nothing_is_stored(dmctl: Dmctl, store: MetaStore) -> None:
    code, document = dmctl("binlog", "skip", "shop", "-s", "one", "-s", "two")

    assert (code, document["result"]) == (1, False)
    assert "source two has no error" in document["msg"]
    assert store.operators("shop", "one") == []


def test_operators_for_a_later_location_and_for_a_pattern(dmctl: Dmctl, store: MetaStore) -> None:
    assert dmctl("binlog", "inject", "shop", "-s", "two", "-b", "mysql-bin.000004:4", DDL)[0] == 0
    assert dmctl("binlog", "skip", "shop", "-s", "two", "--sql-pattern", "~(?i)drop")[0] == 0

    at_place, by_pattern = store.operators("shop", "two")
    assert (at_place.place, at_place.kind) == (Location("mysql-bin.000004", 4, "", 2), OperatorKind.INJECT)
    assert by_pattern.place == SqlPattern("(?i)drop")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["skip", "shop", "-s", "one", "-b", "nowhere"], "it is not FILE:POSITION"),
        (["skip", "shop", "-b", "mysql-bin.000004:4"], "no source is named"),
        (["skip", "shop", "--sql-pattern", "("], "invalid --sql-pattern"),
        (["replace", "shop", "-s", "one", DDL, "DROP TABLE t"], "the statement"),
        (["revert", "shop", "-s", "one"], "operator not exist"),
    ],
)
def test_an_impossible_decision_is_a_typed_error(dmctl: Dmctl, store: MetaStore, words: list[str], why: str) -> None:
    exit_code, document = dmctl("binlog", *words)

    assert (exit_code, document["result"]) == (1, False)
    assert why in document["error"]["Message"]
    assert store.operators("shop", "one") == store.operators("shop", "two") == []


def test_an_unknown_name_is_an_answer_with_an_error(dmctl: Dmctl) -> None:
    for words in (["skip", "nope"], ["skip", "shop", "-s", "nope"], ["list", "nope"]):
        code, document = dmctl("binlog", *words)
        assert (code, document["result"]) == (1, False)
        assert "is not known on" in document["msg"]


def test_list(dmctl: Dmctl) -> None:
    dmctl("binlog", "replace", "shop", "-s", "one", DDL)
    one, two = dmctl("binlog", "list", "shop")[1]["sources"]
    (shown,) = one["operators"]
    assert two["operators"] == []
    assert (shown["op"], shown["sqls"], shown["state"], shown["usedAt"]) == ("replace", [DDL], "waiting", "")


def test_passed_operators_are_listed_on_request(dmctl: Dmctl, store: MetaStore) -> None:
    skip = Operator("shop", "one", OperatorKind.SKIP, HERE)
    store.put_operators([skip])
    store.mark_operator_used(skip, HERE)
    store.mark_operators_passed("shop", "one", HERE.at(500))

    assert dmctl("binlog", "list", "shop", "-s", "one")[1]["sources"][0]["operators"] == []
    ((shown,),) = [one["operators"] for one in dmctl("binlog", "list", "shop", "-s", "one", "--all")[1]["sources"]]
    assert (shown["state"], shown["usedAt"]) == ("passed", "mysql-bin.000003:400")


def test_a_decision_replaces_an_earlier_decision(dmctl: Dmctl, store: MetaStore) -> None:
    assert dmctl("binlog", "replace", "shop", "-s", "one", DDL)[0] == 0
    assert [one.kind for one in store.operators("shop", "one")] == [OperatorKind.REPLACE]
    assert dmctl("binlog", "skip", "shop")[0] == 0
    assert [one.kind for one in store.operators("shop", "one")] == [OperatorKind.SKIP]
    assert dmctl("binlog", "revert", "shop")[0] == 0
    assert store.operators("shop", "one") == []


def test_operators_are_removed_with_their_task(dmctl: Dmctl, store: MetaStore) -> None:
    dmctl("binlog", "skip", "shop", "-s", "one")

    assert dmctl("stop-task", "shop")[0] == 0

    assert store.operators("shop", "one") == []
