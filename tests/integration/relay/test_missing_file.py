"""A file in the middle of a relay log is missing or damaged: readers get an error, whose remedy repairs the log."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.errors import RelayFileGone
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.sync.log.reach import check_events
from tests.integration.relay.conftest import RelayKit, is_settled
from tests.integration.relay.test_gtid import rows
from tests.waiting import wait_for

FILES = 4


@pytest.fixture
def held(kit: RelayKit, fresh_schema: Any, by_gtid: bool) -> RelayKit:
    """A relay has pulled four files and ended."""
    schema = fresh_schema(kit.server)
    kit.server.sql("CREATE TABLE t (id INT)", database=schema)
    for number in range(FILES - 1):
        rows(kit.server, schema, number)
        kit.server.sql("FLUSH BINARY LOGS")
    wait_for(lambda: is_settled(kit.server))
    kit.catch_up(enable_gtid=by_gtid)
    return kit


def files(kit: RelayKit) -> list[Path]:
    (folder,) = kit.root.glob("*.000001")
    return sorted(path for path in folder.iterdir() if path.suffix[1:].isdigit())


def check_whole(kit: RelayKit) -> None:
    for file in RelayReader(kit.root).files(Location(kit.first_file, 4)):
        check_events(file, Location(file.name, 4))


def remove(path: Path) -> None:
    path.unlink()


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-30] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("by_gtid", [False, True], ids=["position", "gtid"])
@pytest.mark.parametrize(("damage", "error"), [(remove, RelayFileGone), (flip_a_bit, ChecksumMismatch)])
def test_the_log_is_pulled_again_into_an_empty_directory(
    held: RelayKit, by_gtid: bool, damage: Any, error: type[Exception]
) -> None:
    damage(files(held)[-2])
    held.catch_up(enable_gtid=by_gtid)
    with pytest.raises(error):
        check_whole(held)

    shutil.move(held.root, held.folder / "away")
    held.catch_up(enable_gtid=by_gtid)

    check_whole(held)
    assert held.differences() == []
