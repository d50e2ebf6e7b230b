"""A MariaDB source that encrypts its log at rest: the server sends it decrypted, which the checksums show."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.errors import UnknownEvent
from testbed import Server, ServerSpec
from tests.conftest import FreshSchema, StartServers
from tests.integration.sync.conftest import SyncKit, kit_for


@pytest.fixture
def encrypted_kit(
    start_own: StartServers,
    mysql_target: Server,
    fresh_schema: FreshSchema,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[SyncKit]:
    keys = tmp_path / "keys"
    keys.write_text(f"1;{'a7' * 32}\n")
    plugin = ("--plugin-load-add=file_key_management", f"--file-key-management-filename={keys}")
    (source,) = start_own(ServerSpec("encrypted", "mariadb", (*plugin, "--encrypt-binlog=1")))
    yield from kit_for(source, mysql_target, fresh_schema, tmp_path, monkeypatch)


def test_it_is_synced_across_files_and_restarts(encrypted_kit: SyncKit) -> None:
    kit = encrypted_kit
    kit.create("plain", "keyless")
    kit.begin()
    for number in range(3):
        kit.write(f"INSERT INTO plain VALUES ({number}, 'a')", f"INSERT INTO keyless VALUES ({number}, 'b')")
        kit.sync()
        kit.relays[-1].kill()
        kit.source.sql("FLUSH BINARY LOGS")
    kit.write("UPDATE plain SET v = 'c' WHERE id > 0", "DELETE FROM keyless WHERE a = 1")
    kit.sync()
    assert kit.differences() == []


def test_without_checksums_nothing_shows_it(encrypted_kit: SyncKit) -> None:
    kit = encrypted_kit
    kit.source.sql("SET GLOBAL binlog_checksum = NONE")
    kit.create("plain")
    kit.begin()
    kit.write("INSERT INTO plain VALUES (1, 'a')")
    kit.source.sql("FLUSH BINARY LOGS")
    kit.write("INSERT INTO plain VALUES (2, 'b')")
    with pytest.raises(UnknownEvent, match=r"START_ENCRYPTION.*binlog_checksum=CRC32"):
        kit.sync()
