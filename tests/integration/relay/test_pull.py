"""The relay's files are the upstream's. tests/chaos kills relays and connections under load."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.directory import INDEX
from airflow_provider_dm.engine.relay.errors import ReplicaIdTaken, UpstreamFileTorn
from airflow_provider_dm.engine.relay.meta import RelayMeta
from airflow_provider_dm.engine.relay.reader import RelayReader
from testbed import Server, ServerSpec
from tests.binlogs import kill_dumps
from tests.conftest import FreshSchema, StartServers
from tests.integration.relay.conftest import KitOf, RelayKit, is_settled, load_on
from tests.waiting import wait_for


def test_the_directory_is_laid_out_as_dm_does(kit: RelayKit, source: Server, fresh_schema: FreshSchema) -> None:
    source.sql(f"CREATE TABLE `{fresh_schema(source)}`.t (id INT)")
    kit.catch_up()
    uuid = "0-" + str(source.server_id) if source.flavour == "mariadb" else source.sql("SELECT @@server_uuid")[0][0]
    assert (kit.root / INDEX).read_text() == f"{uuid}.000001\n"
    upstream = kit.upstream()
    written = RelayMeta.read(kit.root / f"{uuid}.000001")
    assert written == RelayMeta(upstream.file, upstream.position, upstream.gtid_set)
    assert RelayReader(kit.root).suffix_now(uuid) == 1
    (file,) = RelayReader(kit.root).files(Location(kit.first_file, 4))
    assert (file.name, file.size, file.last) == (upstream.file, upstream.position, True)
    assert Path(file.path) == kit.root / f"{uuid}.000001" / upstream.file


def test_large_events_are_received_completely(kit: RelayKit, source: Server, schema: str) -> None:
    source.sql(f"CREATE TABLE `{schema}`.t (v LONGBLOB)")
    for size in ((1 << 24) - 200, 1 << 24, 40_000_000):
        source.sql(f"INSERT INTO `{schema}`.t VALUES (REPEAT('x', {size}))")
    kit.catch_up()
    assert kit.differences() == []


def test_a_source_that_switches_checksums_off_and_on(kit: RelayKit, source: Server, schema: str) -> None:
    source.sql(f"CREATE TABLE `{schema}`.t (id INT)")
    relay = kit.start()
    try:
        for value in ("NONE", "CRC32", "NONE"):
            source.sql(f"SET GLOBAL binlog_checksum = '{value}'; INSERT INTO `{schema}`.t VALUES (1)")
        time.sleep(1)
        relay.kill()
        source.sql(f"INSERT INTO `{schema}`.t VALUES (2)")
        kit.catch_up()
    finally:
        source.sql("SET GLOBAL binlog_checksum = 'CRC32'")
    kit.catch_up()
    assert kit.differences() == []


def test_the_upstream_restarts_and_crashes(kit: RelayKit, source: Server, schema: str) -> None:
    with load_on(source, schema, seed=2):
        relay = kit.start()
        wait_until_pulled(kit, kit.first_file)  # one that never saw its upstream gives up soon
        source.restart()
        wait_until_pulled(kit, kit.upstream().file)
        source.kill()
        wait_for(lambda: kit.status().error is not None)
        source.start()
        wait_until_pulled(kit, kit.upstream().file)
    assert relay.alive(), kit.log()
    assert relay.stop() == 143
    kit.catch_up()
    assert kit.differences(torn=True) == []


@pytest.mark.parametrize(
    ("where", "gtid"),
    [("inside an event", False), ("inside a header", True), ("between events", False), ("between events", True)],
)
def test_a_source_that_died_while_writing(kit_of: KitOf, start_own: StartServers, where: str, gtid: bool) -> None:
    """Its file ends in a part of a transaction that was never committed, and whose id is given out again: MariaDB
    leaves it there, a restarted server continues in the next file. (MySQL cuts it off.)"""
    (own,) = start_own(ServerSpec("torn", "mariadb"))
    kit = kit_of(own)
    own.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT) ENGINE=InnoDB; INSERT INTO d.t VALUES (1)")
    begun = kit.upstream().position
    own.sql("INSERT INTO d.t VALUES (2)")
    options: dict[str, Any] = {"enable_gtid": gtid}
    relay = kit.start(**options)
    wait_for(kit.has_caught_up)
    own.kill()
    log = own.datadir / kit.first_file
    whole = log.read_bytes()
    gtid_event = int.from_bytes(whole[begun + 9 : begun + 13], "little")
    part = {"inside an event": gtid_event + 30, "inside a header": gtid_event + 7, "between events": gtid_event}[where]
    log.write_bytes(whole + _moved(whole[begun : begun + part], len(whole) - begun))
    own.start()
    own.sql("INSERT INTO d.t VALUES (3)")
    wait_for(lambda: kit.status().caught_up and kit.status().relay.file > kit.first_file)  # type: ignore[union-attr]
    assert (UpstreamFileTorn.code in kit.log()) == (where != "between events")
    assert relay.stop() == 143
    kit.catch_up(**options)
    assert kit.differences(torn=True) == []
    status = kit.status()
    assert status.relay is not None
    assert status.relay.gtid_set == kit.upstream().gtid_set


def test_two_replicas_get_server_ids_of_their_own(mariadb_source: Server, kit_of: KitOf, tmp_path: Path) -> None:
    """MySQL distinguishes replicas by UUID as well, which each of our relays has of its own."""
    mariadb_source.sql("FLUSH BINARY LOGS")
    one = kit_of(mariadb_source)
    one.first_file = one.upstream().file
    other = replace(one, source_id="other", folder=tmp_path / "other")
    other.folder.mkdir()
    relays = [kit.start(server_id=4711) for kit in (one, other)]
    wait_for(lambda: ReplicaIdTaken.code in one.log() + other.log())
    assert [relay.stop() for relay in relays] == [143, 143]
    one.catch_up(server_id=4711)
    other.catch_up()
    assert one.differences() == other.differences() == []


def test_a_file_that_lost_committed_transactions(kit_of: KitOf, start_own: StartServers) -> None:
    """It looks as if the source had crashed in it, but the next file lists the committed transactions."""
    (own,) = start_own(ServerSpec("cut", "mariadb"))
    kit = kit_of(own)
    own.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT) ENGINE=InnoDB; INSERT INTO d.t VALUES (1)")
    kit.catch_up()
    held = kit.upstream().position
    own.sql("INSERT INTO d.t VALUES (2); FLUSH BINARY LOGS; INSERT INTO d.t VALUES (3)")
    log = own.datadir / kit.first_file
    log.write_bytes(log.read_bytes()[: held + 30])
    error = kit.fails_with()
    assert error.code == "DM-4028"
    assert f"0-{own.server_id}-4" in error.message


def test_an_encrypted_binlog_is_pulled_decrypted(start_own: StartServers, kit_of: KitOf, tmp_path: Path) -> None:
    """MariaDB repeats the encryption event at every connection."""
    keys = tmp_path / "keys"
    keys.write_text(f"1;{'a7' * 32}\n")
    plugin = ("--plugin-load-add=file_key_management", f"--file-key-management-filename={keys}")
    (own,) = start_own(ServerSpec("encrypted", "mariadb", (*plugin, "--encrypt-binlog=1")))
    kit, other = kit_of(own), kit_of(own)
    own.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT)")
    for number in range(3):
        own.sql(f"INSERT INTO d.t VALUES ({number})")
        kit.catch_up()
    relay = kit.start()
    wait_for(lambda: kit.status().stage is Stage.RUNNING and kit.status().caught_up)
    kill_dumps(kit.server)
    own.sql("INSERT INTO d.t VALUES (9); FLUSH BINARY LOGS; INSERT INTO d.t VALUES (10)")
    wait_for(lambda: kit.status().caught_up and kit.status().relay == kit.upstream())
    relay.stop()
    other.folder = tmp_path / "other"
    other.folder.mkdir()
    wait_for(lambda: is_settled(own))
    for one in (other, kit):
        one.catch_up()
    once, often = ([path.read_bytes() for path in sorted(one.root.glob("*/mysql-bin.*"))] for one in (other, kit))
    assert once == often
    assert [len(data) for data in often] == [size for _, size, *_ in own.sql("SHOW BINARY LOGS")]


def wait_until_pulled(kit: RelayKit, file: str) -> None:
    """Wait until the relay reports that it writes this file, or a later one."""

    def has_come() -> bool:
        status = kit.store.relay_status(kit.source_id)
        return status is not None and status.relay is not None and status.relay.file >= file

    wait_for(has_come)


def _moved(events: bytes, distance: int) -> bytes:
    """Events as they would be written at a later position: with it, and the checksum of those that are whole."""
    moved, at = bytearray(events), 0
    while at + 19 <= len(moved):
        size = int.from_bytes(moved[at + 9 : at + 13], "little")
        end = int.from_bytes(moved[at + 13 : at + 17], "little") + distance
        moved[at + 13 : at + 17] = end.to_bytes(4, "little")
        if at + size <= len(moved):
            moved[at + size - 4 : at + size] = crc32(moved[at : at + size - 4]).to_bytes(4, "little")
        at += size
    return bytes(moved)


def test_a_relay_without_a_start_begins_with_the_current_file(
    kit: RelayKit, source: Server, fresh_schema: FreshSchema
) -> None:
    source.sql(f"CREATE TABLE `{fresh_schema(source)}`.t (id INT); FLUSH BINARY LOGS")
    kit.first_file = kit.upstream().file
    kit.catch_up(relay_binlog_name="")
    assert kit.differences() == []


def test_tls_and_caching_sha2(kit: RelayKit, source: Server) -> None:
    """MySQL makes its own certificates; MariaDB 10.11 has none unless an administrator makes them."""
    plugin = "caching_sha2_password" if source.flavour == "mysql" else ""
    source.create_user("relay_tls", "secret", privileges="REPLICATION SLAVE, REPLICATION CLIENT", plugin=plugin)
    tls = source.flavour == "mysql"
    endpoint = kit.endpoint.model_copy(update={"user": "relay_tls", "use_tls": tls})
    endpoint = endpoint.model_validate({**endpoint.model_dump(), "password": {"env": "DM_TEST_PASSWORD"}})
    kit.catch_up(endpoint=endpoint)
    assert kit.differences() == []
    source.sql("DROP USER relay_tls")


def test_tagged_transactions_are_counted(start_own: StartServers, kit_of: KitOf) -> None:
    (server,) = start_own(ServerSpec("tagged", "mysql"))
    kit = kit_of(server)
    server.sql("CREATE DATABASE d; SET gtid_next = 'AUTOMATIC:blue'; CREATE TABLE d.t (id INT)")
    server.sql("SET gtid_next = 'AUTOMATIC:green'; INSERT INTO d.t VALUES (1); FLUSH BINARY LOGS")
    server.sql("SET gtid_next = 'AUTOMATIC:blue'; INSERT INTO d.t VALUES (2)")
    middle = kit.upstream()
    server.sql("INSERT INTO d.t VALUES (3)")
    kit.catch_up(enable_gtid=True, relay_binlog_name="", relay_binlog_gtid=middle.gtid_set)
    relay = kit.status().relay
    assert relay is not None
    assert ":blue:1-2:green:1" in relay.gtid_set
    assert relay.gtid_set == kit.upstream().gtid_set
    kit.first_file = middle.file
    assert kit.differences() == []
