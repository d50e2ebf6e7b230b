"""The writer on a disk that refuses: what stays is whole."""

import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.location import BinlogFile
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.errors import RelayDiskFailed
from airflow_provider_dm.engine.relay.meta import RelayMeta
from airflow_provider_dm.engine.relay.writer import RelayWriter
from tests.unit.relay.events import GTID_LIST, begin, commit, filler, format_description, real


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """A disk with room for so many bytes of one file: the kernel writes a part and refuses the rest."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def new_writer(root: Path) -> RelayWriter:
    directory = RelayDirectory(root)
    return RelayWriter(directory, directory.add("0-7"), Flavour.MARIADB, BinlogFile("mysql-bin", 1))


def with_one_transaction(writer: RelayWriter) -> int:
    writer.create(format_description())
    writer.append([real(GTID_LIST, struct.pack("<I", 0), writer.size)])
    writer.begin_transactions([begin(1, writer.size)], writer.size)
    for make in (lambda at: begin(1, at), lambda at: filler(100, at), commit):
        writer.append([make(writer.size)])
    return writer.size


def test_an_incomplete_write_is_cut_back_to_the_last_transaction(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    boundary = with_one_transaction(writer)
    writer.append([begin(2, boundary)])
    writer.begin_transactions([begin(2, boundary)], boundary)
    with files_end_at(writer.size + 50):
        with pytest.raises(RelayDiskFailed):
            writer.append([filler(5000, writer.size)])
        assert writer.path.stat().st_size == writer.size == boundary
    writer.close()
    assert RelayMeta.read(writer.folder) == RelayMeta("mysql-bin.000001", boundary, "0-7-1")


def test_relay_meta_has_complete_transactions_only(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    boundary = with_one_transaction(writer)
    assert str(writer.location().gtid_set) == "0-7-1"
    writer.begin_transactions([begin(2, boundary)], boundary)
    writer.append([begin(2, boundary)])
    here = writer.save()
    assert (here.position, here.gtid_set) == (writer.size, "0-7-1")
    assert RelayMeta.read(writer.folder) == RelayMeta("mysql-bin.000001", boundary, "0-7-1")
    writer.close()


def test_a_file_appears_whole(tmp_path: Path) -> None:
    writer = new_writer(tmp_path)
    assert not writer.path.exists()
    writer.create(format_description())
    assert writer.path.read_bytes() == b"\xfebin" + format_description()
    assert writer.holds(4, memoryview(format_description()))
    writer.close()
