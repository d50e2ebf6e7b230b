"""A MariaDB source that encrypts its log at rest: the server sends it decrypted, which the checksums show."""

from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.errors import UnknownEvent
from testbed import Server, ServerSpec
from tests.conftest import StartServers
from tests.integration.sync.conftest import NewKit, SyncKit


@pytest.fixture
def encrypted_kit(start_own: StartServers, mysql_target: Server, tmp_path: Path, new_kit: NewKit) -> SyncKit:
    keys = tmp_path / "keys"
    keys.write_text(f"1;{'a7' * 32}\n")
    plugin = ("--plugin-load-add=file_key_management", f"--file-key-management-filename={keys}")
    (source,) = start_own(ServerSpec("encrypted", "mariadb", (*plugin, "--encrypt-binlog=1")))
    return new_kit(SyncKit, source, mysql_target)


def test_it_is_synced_across_files_and_restarts(encrypted_kit: SyncKit) -> None:
    encrypted_kit.begin_with("plain", "keyless")
    for number in range(3):
        encrypted_kit.write(f"INSERT INTO plain VALUES ({number}, 'a')", f"INSERT INTO keyless VALUES ({number}, 'b')")
        encrypted_kit.sync()
        encrypted_kit.relays[-1].kill()
        encrypted_kit.source.sql("FLUSH BINARY LOGS")
    encrypted_kit.write("UPDATE plain SET v = 'c' WHERE id > 0", "DELETE FROM keyless WHERE a = 1")
    encrypted_kit.sync_and_compare()


def test_without_checksums_the_damage_is_undetectable(encrypted_kit: SyncKit) -> None:
    encrypted_kit.source.sql("SET GLOBAL binlog_checksum = NONE")
    encrypted_kit.begin_with("plain")
    encrypted_kit.write("INSERT INTO plain VALUES (1, 'a')")
    encrypted_kit.source.sql("FLUSH BINARY LOGS")
    encrypted_kit.write("INSERT INTO plain VALUES (2, 'b')")
    encrypted_kit.stops(UnknownEvent, match=r"START_ENCRYPTION.*binlog_checksum=CRC32")
