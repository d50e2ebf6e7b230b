"""`dmctl run` whose relay log is damaged: the driver pulls from the upstream itself, and every row is right."""

import signal
from pathlib import Path

import pytest

from testbed import Server
from tests.conftest import FreshSchema
from tests.waiting import wait_for

from .dmctl import Dmctl, Files, write_files

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1200)]

SOURCE = "mysql-01"


@pytest.fixture
def schema(mysql_source: Server, mariadb_target: Server, fresh_schema: FreshSchema) -> str:
    name = fresh_schema(mysql_source, mariadb_target)
    mysql_source.sql(
        f"USE `{name}`; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000)); INSERT INTO t VALUES (1, 'a'), (2, 'b')"
    )
    return name


@pytest.fixture
def files(schema: str, mysql_source: Server, mariadb_target: Server, tmp_path: Path) -> Files:
    made = write_files(tmp_path, target=mariadb_target, sources={SOURCE: mysql_source}, schemas=[schema], name=schema)
    (source,) = made.sources
    source.write_text(source.read_text().replace("enable-relay: false", "enable-relay: true"))
    return made


def test_a_damaged_relay_log_is_read_from_the_upstream(
    files: Files, schema: str, mysql_source: Server, mariadb_target: Server, tmp_path: Path
) -> None:
    dmctl = Dmctl(tmp_path / "work")
    first = dmctl("run", *files.arguments, "--json")
    assert first.code == 0, first.err

    # Into the relay log, while no sync runs: a row whose bytes are then changed there, and a file after it.
    mysql_source.sql(f"INSERT INTO `{schema}`.t VALUES (3, REPEAT('q', 900)); FLUSH BINARY LOGS")
    mysql_source.sql(f"INSERT INTO `{schema}`.t VALUES (4, 'd')")
    ((file, position, *_),) = mysql_source.sql("SHOW BINARY LOG STATUS")
    relay = dmctl.work / "relay" / SOURCE

    def has_all() -> bool:
        return [path.stat().st_size for path in relay.glob(f"*/{file}")] == [position]

    with dmctl.started("start-relay", "-s", SOURCE, "--source-file", files.sources[0]) as process:
        wait_for(has_all)
        process.send_signal(signal.SIGINT)
        process.wait(240)
    (damaged,) = (path for path in relay.glob("*/*bin.*") if b"q" * 900 in path.read_bytes())
    assert damaged.name != file
    damaged.write_bytes(damaged.read_bytes().replace(b"q" * 900, b"q" * 899 + b"r"))

    second = dmctl("run", *files.arguments, "--json")

    assert second.code == 0, second.err
    assert second.answer["verified"] is True
    assert second.answer["changes_applied"] == 2
    logs = [path.read_text() for path in (dmctl.work / "tasks" / schema / "runs").glob("*/app.log")]
    assert any("pulling from the upstream: [DM-3003" in text for text in logs)
    assert not (dmctl.work / "tasks" / schema / "upstream" / SOURCE).exists()
