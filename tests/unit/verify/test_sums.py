"""Sums of row hashes: a multiset, whatever the order and the pieces."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.verify.sums import CLASSES, HashFocus, Sums, hash_rows, in_focus, total

rows = st.lists(st.binary(max_size=3), max_size=30)


EVERYTHING = HashFocus()


def sums_of(found: list[bytes], focus: HashFocus = EVERYTHING) -> Sums:
    sums = Sums.zero()
    sums.add(hash_rows(found), focus)
    return sums


@given(rows, rows)
def test_sums_are_equal_exactly_for_equal_multisets(here: list[bytes], there: list[bytes]) -> None:
    assert (not sums_of(here).unequal(sums_of(there))) == (Counter(here) == Counter(there))


@given(rows, st.integers(0, 30), st.randoms())
def test_order_and_pieces_do_not_matter(found: list[bytes], cut: int, random: object) -> None:
    pieces = total([sums_of(found[cut:][::-1]), sums_of(found[:cut])])

    assert not pieces.unequal(sums_of(found))
    assert pieces.rows == len(found)


def test_equal_duplicates_do_not_cancel_out() -> None:
    assert sums_of([b"a", b"a"]).unequal(sums_of([b"b", b"b"]))


@given(rows)
def test_a_focus_holds_the_rows_of_its_class_and_all_foci_hold_all(found: list[bytes]) -> None:
    hashes = hash_rows(found)
    outer = HashFocus().inside(int(hashes[0, 0]) % CLASSES) if found else HashFocus()
    inner = [int(in_focus(hashes, outer.inside(number)).sum()) for number in range(CLASSES)]

    assert sum(inner) == int(in_focus(hashes, outer).sum()) == sums_of(found, outer).rows
    assert sums_of(found, outer).counts.tolist() == inner
