"""Binlog operators."""

from dataclasses import replace

import pytest

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.errors import LostRace
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, OperatorState, SqlPattern
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from tests.meta_contract.opened import OpenStore


class OperatorContract(OpenStore):
    """The contract of operators for a location of the log."""

    def test_the_life_of_an_operator(self, store: MetaStore) -> None:
        here = Location("mysql-bin.000003", 400, "", 2)
        wish = Operator("t", "s", OperatorKind.REPLACE, here, ("ALTER TABLE a.b ADD c int", "DROP TABLE a.`naïve ☃`"))
        store.put_operators([wish, replace(wish, task="T"), replace(wish, source="other")])
        (found,) = store.operators("t", "s")
        assert found.created_at is not None
        assert replace(found, created_at=None) == wish
        assert store.mark_operators_passed("t", "s", here) == []
        store.mark_operator_used(found, here)
        store.mark_operator_used(found, here)  # once more, by the run after the one that died
        (used,) = store.operators("t", "s")
        assert (used.state, used.used_at) == (OperatorState.USED, here)
        assert store.mark_operators_passed("t", "s", here) == []
        (passed,) = store.mark_operators_passed("t", "s", here.at(500))
        assert (passed.place, passed.used_at) == (here, here)
        assert store.operators("t", "s") == []
        (record,) = store.operators("t", "s", passed=True)
        assert record.state is OperatorState.PASSED
        with pytest.raises(InvalidInput, match="operator not exist"):
            store.revert_operator("t", "s", here)
        assert [len(store.operators(*key)) for key in (("T", "s"), ("t", "other"))] == [1, 1]

    def test_a_location_without_ddl_is_reported_when_the_task_has_passed_it(self, store: MetaStore) -> None:
        here, pattern = Location("mysql-bin.000003", 400), SqlPattern("(?i)drop")
        store.put_operators([Operator("t", "s", OperatorKind.SKIP, place) for place in (here, pattern)])
        (missed,) = store.mark_operators_passed("t", "s", Location("mysql-bin.000009", 4))
        assert (missed.place, missed.used_at) == (here, None)
        assert [one.place for one in store.operators("t", "s")] == [pattern]

    def test_an_operator_that_is_not_as_it_was_read_is_not_used(self, store: MetaStore) -> None:
        here, there, pattern = Location("mysql-bin.000003", 400), Location("mysql-bin.000003", 900), SqlPattern("DROP")
        by_place, by_pattern = (Operator("t", "s", OperatorKind.SKIP, place) for place in (here, pattern))
        store.put_operators([by_place, by_pattern])
        store.mark_operator_used(by_pattern, here)
        with pytest.raises(LostRace, match=r"used at mysql-bin\.000003:400"):
            store.mark_operator_used(by_pattern, there)
        store.put_operators([replace(by_place, kind=OperatorKind.INJECT, statements=("DROP TABLE a.b",))])
        with pytest.raises(LostRace):
            store.mark_operator_used(by_place, here)
        assert store.revert_operator("t", "s", pattern).used_at == here
        with pytest.raises(LostRace):
            store.mark_operator_used(by_pattern, here)

    def test_the_later_operator_for_a_location_counts(self, store: MetaStore) -> None:
        here = Location("mysql-bin.000003", 400)
        first = Operator("t", "s", OperatorKind.REPLACE, here, ("DROP TABLE a.b",))
        store.put_operators([first])
        store.mark_operator_used(first, here)
        store.put_operators([Operator("t", "s", OperatorKind.SKIP, here)])
        (found,) = store.operators("t", "s")
        assert (found.kind, found.statements, found.state, found.used_at) == ("skip", (), "waiting", None)

    def test_operators_are_removed_with_their_subtask(self, store: MetaStore) -> None:
        store.put_operators([Operator("t", "s", OperatorKind.SKIP, SqlPattern("DROP"))])
        store.forget_subtask("t", "s")
        assert store.operators("t", "s", passed=True) == []
