"""The relay directory: what its names mean, and what is made of it after any death."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.directory import INDEX, RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.directory_lock import INDEX_LOCK, LOCK, sole_writer
from airflow_provider_dm.engine.relay.errors import (
    InvalidSubDir,
    RelayDirectoryUnusable,
    RelayFileGone,
    RelayLocked,
    RelayStartsTooLate,
)
from airflow_provider_dm.engine.relay.meta import RelayMeta
from airflow_provider_dm.engine.relay.reader import RelayReader

UUID = "9f2c1e55-0000-11ee-8c90-0242ac120002"

sub_dirs = st.builds(SubDir, st.sampled_from([UUID, "0-1", "0-4294967295"]), st.integers(1, 999_999))


@given(sub_dirs)
def test_a_sub_directory_is_equal_after_conversion_to_text(sub_dir: SubDir) -> None:
    assert SubDir.parse(str(sub_dir)) == sub_dir


@pytest.mark.parametrize("text", ["", "..", "../..", f"{UUID}", f"{UUID}.1", f"{UUID}.000000", "a/b.000001", ".000001"])
def test_a_path_is_no_sub_directory(text: str) -> None:
    with pytest.raises(InvalidSubDir):
        SubDir.parse(text)


def made(root: Path, *files: str) -> RelayDirectory:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xfebin")
    return RelayDirectory(root)


def test_a_new_sub_directory_gets_the_next_number(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    assert directory.add("0-1") == SubDir("0-1", 1)
    assert directory.add(UUID) == SubDir(UUID, 2)
    assert (tmp_path / INDEX).read_text() == f"0-1.000001\n{UUID}.000002\n"
    assert directory.latest() == SubDir(UUID, 2)


@pytest.mark.parametrize("index", [None, "", "garbage", "\0\0\0\0\0\0\0\0"])
def test_a_lost_index_is_rebuilt_from_the_folders(tmp_path: Path, index: str | None) -> None:
    directory = made(tmp_path, "0-1.000001/mysql-bin.000001", f"{UUID}.000002/mysql-bin.000001")
    if index is not None:
        (tmp_path / INDEX).write_text(index)
    assert directory.sub_dirs() == (SubDir("0-1", 1), SubDir(UUID, 2))
    directory.repair_index()
    assert (tmp_path / INDEX).read_text() == f"0-1.000001\n{UUID}.000002\n"


def test_two_sub_directories_of_one_number_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RelayDirectoryUnusable):
        made(tmp_path, "0-1.000001/mysql-bin.000001", "0-2.000001/mysql-bin.000001").sub_dirs()


def test_links_and_foreign_files_are_not_seen(tmp_path: Path) -> None:
    directory = made(tmp_path, "0-1.000001/mysql-bin.000002", "0-1.000001/mysql-bin.000010", "0-1.000001/notes.txt")
    folder = tmp_path / "0-1.000001"
    (folder / "mysql-bin.000011").symlink_to("/etc/passwd")
    (folder / ".mysql-bin.000012.new").write_bytes(b"half")
    assert [str(one.file) for one in directory.files(SubDir("0-1", 1))] == ["mysql-bin.000002", "mysql-bin.000010"]


@given(st.integers(4, 2**63 - 1), st.sampled_from(["", "0-1-42", f"{UUID}:1-3:7"]))
def test_relay_meta_survives_being_written(position: int, gtid_set: str) -> None:
    meta = RelayMeta("mysql-bin.000010", position, gtid_set)
    assert RelayMeta.parse(meta.format()) == meta


@given(st.integers(0, 200))
def test_a_truncated_relay_meta_is_ignored(cut: int) -> None:
    text = RelayMeta("mysql-bin.000010", 63083620, f"{UUID}:1-3328").format()
    whole = text.partition("#")[0].strip()  # as DM writes it
    assert RelayMeta.parse(text[:cut]) is None or text[:cut].strip() in (whole, text.strip())


@pytest.mark.parametrize(
    "text",
    [
        RelayMeta("mysql-bin.000010", 63083620, "0-1-328").format().replace("0-1-328", "0-1-329"),
        'binlog-name = "mysql-bin.000010"\nbinlog-pos = 4\nbinlog-gtid = ""\n',
        'binlog-name = "mysql-bin.000010"\nbinlog-pos = 4\nbinlog-gtid = "garbage"\n',
        'binlog-name = "../../etc/x.000001"\nbinlog-pos = 4\nbinlog-gtid = ""\n',
    ],
    ids=["a flipped digit", "DM's without a set", "DM's with an invalid set", "a path"],
)
def test_a_relay_meta_that_is_no_hint_is_ignored(text: str) -> None:
    assert RelayMeta.parse(text) is None


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with sole_writer(tmp_path):
        with pytest.raises(RelayLocked, match="process"):
            with sole_writer(tmp_path):
                pass
    with sole_writer(tmp_path):
        pass


@pytest.mark.parametrize("name", [LOCK, INDEX_LOCK])
def test_a_lock_file_that_is_not_ours_to_open_is_an_error_with_a_name(tmp_path: Path, name: str) -> None:
    """Another user has made the directory, or a link with its name."""
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RelayDirectoryUnusable, match=name), sole_writer(tmp_path):
        RelayDirectory(tmp_path).add("0-1")
    assert not (tmp_path / "elsewhere").exists()


# The reader


def test_a_reader_ahead_of_the_relay_gets_nothing_yet(tmp_path: Path) -> None:
    made(tmp_path, "0-1.000001/mysql-bin.000001")
    assert RelayReader(tmp_path).files(Location("mysql-bin.000002", 4)) == []
    assert RelayReader(tmp_path / "none").files(Location("mysql-bin.000002", 4)) == []


def test_missing_files_are_errors(tmp_path: Path) -> None:
    made(tmp_path, "0-1.000001/mysql-bin.000002", "0-1.000001/mysql-bin.000004")
    with pytest.raises(RelayStartsTooLate, match=r"mysql-bin\.000002"):
        RelayReader(tmp_path).files(Location("mysql-bin.000001", 4))
    with pytest.raises(RelayFileGone, match=r"mysql-bin\.000003"):
        RelayReader(tmp_path).files(Location("mysql-bin.000002", 4))
