"""GTID sets: one algebra for two notations, checked against sets of single transactions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.errors import InvalidGtidSet
from airflow_provider_dm.engine.mysql.gtid import GtidSet, Interval, MariadbGtid, MariadbGtidSet, MysqlGtidSet, Sid

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "4f22fa47-71ca-11e1-9e33-c80aa9429562"

sids = st.builds(Sid, st.sampled_from([A, B]), st.sampled_from(["", "blue"]))
intervals = st.builds(lambda first, length: Interval(first, first + length), st.integers(1, 40), st.integers(0, 8))
mysql_sets = st.builds(MysqlGtidSet.of, st.lists(st.tuples(sids, intervals), max_size=12))
mariadb_gtids = st.builds(MariadbGtid, st.integers(0, 3), st.integers(1, 3), st.integers(1, 30))
mariadb_sets = st.builds(MariadbGtidSet.of, st.lists(mariadb_gtids, max_size=8))


def members(gtids: MysqlGtidSet) -> set[tuple[Sid, int]]:
    return {(sid, number) for sid, interval in gtids.flat() for number in range(interval.first, interval.last + 1)}


def mysql(text: str) -> MysqlGtidSet:
    return MysqlGtidSet.parse_text(text)


@given(mysql_sets, mysql_sets)
def test_mysql_sets_behave_as_sets_of_transactions(one: MysqlGtidSet, other: MysqlGtidSet) -> None:
    assert members(one.union(other)) == members(one) | members(other)
    assert members(one.minus(other)) == members(one) - members(other)
    assert one.contains(other) == (members(one) >= members(other))
    assert bool(one) == bool(members(one))


@given(mysql_sets)
def test_mysql_sets_survive_being_written(gtids: MysqlGtidSet) -> None:
    assert mysql(str(gtids)) == gtids
    assert members(mysql(str(gtids))) == members(gtids)


@given(mysql_sets, mysql_sets)
def test_equal_sets_have_one_text(one: MysqlGtidSet, other: MysqlGtidSet) -> None:
    assert (members(one) == members(other)) == (str(one) == str(other))


@given(mariadb_sets, mariadb_sets)
def test_mariadb_positions_are_joined_by_domain(one: MariadbGtidSet, other: MariadbGtidSet) -> None:
    both = one.union(other)
    assert both == other.union(one)
    assert both.contains(one)
    assert both.contains(other)
    assert not one.minus(one)
    assert one.contains(other) == (not other.minus(one))


@given(mariadb_sets)
def test_mariadb_positions_survive_being_written(gtids: MariadbGtidSet) -> None:
    assert GtidSet.parse(str(gtids), Flavour.MARIADB) == gtids


def test_gaps_are_kept() -> None:
    assert str(mysql(f"{A}:1-50:63-100")) == f"{A}:1-50:63-100"
    assert not mysql(f"{A}:1-50:63-100").contains(mysql(f"{A}:55"))


def test_intervals_that_touch_become_one() -> None:
    assert str(mysql(f"{A}:4-5:1-3:7")) == f"{A}:1-5:7"


def test_line_breaks_and_capitals_do_not_matter() -> None:
    assert mysql(f"{A.upper()}:1-3,\n {B}:7") == mysql(f"{A}:1-3,{B}:7")


def test_the_writing_server_does_not_matter_for_containment_in_mariadb() -> None:
    before, after = (GtidSet.parse(text, Flavour.MARIADB) for text in ("0-1-42", "0-2-43"))
    assert after.contains(before)
    assert not before.contains(after)


@pytest.mark.parametrize("text", ["nonsense", A, f"{A}:0", f"{A}:5-3", f"{A}:1-x", "0-1-2", f"{A}:Tag"])
def test_an_invalid_mysql_gtid_set_is_refused(text: str) -> None:
    with pytest.raises(InvalidGtidSet):
        GtidSet.parse(text if text != f"{A}:Tag" else f"{A}:1-2:-", Flavour.MYSQL)


@pytest.mark.parametrize("text", ["0-1", "a-b-c", f"{A}:1"])
def test_an_invalid_mariadb_gtid_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidGtidSet):
        GtidSet.parse(text, Flavour.MARIADB)


def test_sets_of_two_flavours_have_no_union() -> None:
    with pytest.raises(InvariantBroken):
        GtidSet.empty(Flavour.MYSQL).union(GtidSet.empty(Flavour.MARIADB))
