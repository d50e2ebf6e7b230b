"""Recovery: every prefix of a file, with every hint, becomes its longest whole history."""

from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.relay.directory import RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.meta import META, RelayMeta
from airflow_provider_dm.engine.relay.recovery import Recovered, recover
from tests.unit.relay.events import MAGIC, file_of, format_description

DATA, BOUNDARIES = file_of(6)
FIRST = len(MAGIC + format_description())
NAME = "mysql-bin.000002"
SUB_DIR = SubDir("0-7", 1)

reusing_the_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def recovered(root: Path, data: bytes, meta: str | None = None) -> Recovered | None:
    folder = root / str(SUB_DIR)
    folder.mkdir(exist_ok=True)
    (folder / NAME).write_bytes(data)
    (folder / META).unlink(missing_ok=True)
    if meta is not None:
        (folder / META).write_text(meta)
    return recover(RelayDirectory(root), SUB_DIR, Flavour.MARIADB)


def whole_until(cut: int) -> int:
    return BOUNDARIES[bisect_right(BOUNDARIES, cut) - 1]


def begins(boundary: int) -> int:
    index = BOUNDARIES.index(boundary)
    return BOUNDARIES[index - 1] if index >= 2 else FIRST


@given(st.integers(FIRST, len(DATA)), st.binary(max_size=40), st.sampled_from([None, "", *BOUNDARIES[1:]]))
@reusing_the_folder
def test_a_file_is_cut_at_its_last_complete_transaction(
    tmp_path: Path, cut: int, torn: bytes, hint: int | str | None
) -> None:
    """`torn`: what a power cut may leave behind the last whole write; `hint`: what relay.meta says, if anything.

    It never says more than what was durable before it was written: torn bytes do not reach up to the hint.
    """
    assume(not isinstance(hint, int) or hint <= cut or hint > cut + len(torn))
    meta = hint if isinstance(hint, str) else None
    if isinstance(hint, int):
        number = BOUNDARIES.index(hint) - 1
        meta = RelayMeta(NAME, hint, f"0-7-{number}" if number else "").format()
    found = recovered(tmp_path, DATA[:cut] + torn, meta)
    boundary = whole_until(cut)
    assert found is not None
    assert found.size == boundary == (tmp_path / str(SUB_DIR) / NAME).stat().st_size
    complete = max(0, BOUNDARIES.index(boundary) - 1)
    assert str(found.gtid_set) == (f"0-7-{complete}" if complete else "")
    assert found.begun == begins(boundary) or found.begun == hint == boundary


@given(st.integers(FIRST, len(DATA) - 1))
@reusing_the_folder
def test_nothing_after_a_flipped_bit_is_kept(tmp_path: Path, at: int) -> None:
    damaged = bytearray(DATA)
    damaged[at] ^= 0x10
    found = recovered(tmp_path, bytes(damaged))
    assert found is not None
    assert found.size == whole_until(at)


@given(st.integers(0, FIRST - 1))
@reusing_the_folder
def test_a_file_without_a_format_description_is_removed(tmp_path: Path, cut: int) -> None:
    assert recovered(tmp_path, DATA[:cut]) is None
    assert not (tmp_path / str(SUB_DIR) / NAME).exists()


@pytest.mark.parametrize("position", [FIRST + 1, len(DATA) + 1, 4])
def test_an_impossible_relay_meta_is_ignored(tmp_path: Path, position: int) -> None:
    found = recovered(tmp_path, DATA, RelayMeta(NAME, position, "0-7-999").format())
    assert found is not None
    assert (found.size, str(found.gtid_set)) == (len(DATA), "0-7-6")


def test_half_written_temporary_files_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / str(SUB_DIR)
    folder.mkdir()
    (folder / f".{NAME}.new").write_bytes(b"half")
    recovered(tmp_path, DATA)
    assert sorted(path.name for path in folder.iterdir()) == [NAME]


@pytest.mark.parametrize("hint", [RelayMeta(NAME, BOUNDARIES[-1], "0-7-6").format(), None])
def test_a_file_without_transactions_has_the_gtid_set_of_the_previous_file(tmp_path: Path, hint: str | None) -> None:
    """Killed between its format description and the set that follows: relay.meta knows it, or the finished file."""
    folder = tmp_path / str(SUB_DIR)
    folder.mkdir()
    (folder / NAME).write_bytes(DATA)
    (folder / "mysql-bin.000003").write_bytes(MAGIC + format_description())
    if hint is not None:
        (folder / META).write_text(hint)
    found = recover(RelayDirectory(tmp_path), SUB_DIR, Flavour.MARIADB)
    assert found is not None
    assert (str(found.file), found.size, str(found.gtid_set)) == ("mysql-bin.000003", FIRST, "0-7-6")
