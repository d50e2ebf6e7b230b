"""An upstream that lies: refused with a typed error, in bounded memory, and nothing outside the relay directory."""

import random
import re
import ssl
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from airflow_provider_dm.engine.config.job import EndpointSpec
from airflow_provider_dm.engine.errors import ReportedError
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import connect
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.mysql.errors import ServerUnreachable
from testbed import Server
from tests.crash.upstream import made_up, servers
from tests.integration.relay.conftest import RelayKit
from tests.integration.relay.rogue import OK, Rogue, Session, local_infile
from tests.metadata_db import new_meta_db

UPSTREAM = servers(Flavour.MYSQL)[0]
FIRST = UPSTREAM.files[0]
EVENTS = [event for _at, event in FIRST.events()]
DAMAGED = EVENTS[2][:25] + bytes([EVENTS[2][25] ^ 1]) + EVENTS[2][26:]
FIRST_NAME = "mysql-bin.000001"
ROOM_KB = 400_000
"""The most resident memory, for a relay that is lied to; an honest one of this size takes a quarter of it."""


@pytest.fixture
def kit(tmp_path: Path, forked_relays: None) -> Iterator[RelayKit]:
    """Relays without a server of their own; no test here needs one."""
    folder = tmp_path / "inner"
    folder.mkdir()
    url = new_meta_db(folder)
    with MetaStore.open(url) as store:
        kit = RelayKit(cast(Server, None), folder, store, url, FIRST_NAME)
        yield kit
        for process in kit.started:
            if process.alive():
                process.kill()


def endpoint_of(rogue: Rogue, **options: object) -> EndpointSpec:
    known = {"name": "rogue", "host": "127.0.0.1", "port": rogue.port, "user": "relay", **options}
    return EndpointSpec.model_validate({**known, "password": {"env": "DM_TEST_PASSWORD"}})


def refusal(kit: RelayKit, rogue: Rogue, endpoint: dict[str, object] | None = None, **config: object) -> ReportedError:
    """The typed error with which the relay ends, once it is seen that it ended well."""
    with rogue.listening():
        process = kit.start("caught-up", endpoint_of(rogue, **(endpoint or {})), **config)
        deadline, peak = time.monotonic() + 300, 0
        while process.alive():
            assert time.monotonic() < deadline, f"it hangs: {kit.log()}"
            peak = max(peak, resident_kb(process.pid))
            time.sleep(0.01)
    assert process.exit_code() == 2, kit.log()
    assert "Traceback" not in kit.log(), kit.log()
    assert peak < ROOM_KB
    nothing_outside(kit)
    error = process.error()
    assert error is not None
    assert printable(kit.log())
    return error


def resident_kb(pid: int) -> int:
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def printable(log: str) -> bool:
    """Nothing in it makes a terminal do anything."""
    return all(character.isprintable() or character in "\n\t" for character in log)


def nothing_outside(kit: RelayKit) -> None:
    """Check that beside the relay directory there is what the test has made; inside, the names of a relay."""
    outer = {path.name for path in kit.folder.parent.iterdir()}
    beside = {path.name for path in kit.folder.iterdir()}
    assert outer == {"inner"}
    assert beside <= {"meta.db", "relay.log", "relay"}, beside
    allowed = r"[\w-]+\.\d{6}(/(mysql-bin\.\d{6}|relay\.meta))?|server-uuid\.index|(relay|purge|index)\.lock"
    for path in kit.root.rglob("*"):
        assert re.fullmatch(allowed, str(path.relative_to(kit.root))), path


def rotate(name: bytes, position: int = 4) -> bytes:
    return made_up(4, struct.pack("<Q", position) + name)


def sends(*events: bytes) -> Callable[[Session], None]:
    def dump(session: Session) -> None:
        for event in events:
            session.event(event)
        time.sleep(1)

    return dump


def after_start(*events: bytes) -> Callable[[Session], None]:
    """A stream that begins well: rotate, format description, set of GTIDs; then these events."""
    return sends(rotate(FIRST_NAME.encode()), *EVENTS[:2], *events)


@pytest.mark.parametrize(
    "name",
    [
        b"../../etc/passwd",
        b"../../x.000001",
        b"/tmp/evil.000001",
        b"mysql-bin.000001\0.000002",
        b"..",
        b"",
        b".mysql-bin.000001",
        b"mysql-bin.000001/../../x.000001",
        b"mysql-bin.\xd9\xa1\xd9\xa1\xd9\xa1\xd9\xa1\xd9\xa1\xd9\xa1",
    ],
)
def test_a_binlog_that_is_no_file_name(kit: RelayKit, name: bytes) -> None:
    assert "names its next binlog" in refusal(kit, Rogue(sends(rotate(name)))).message


@pytest.mark.parametrize("name", [b"x" * 300 + b".000001", b"other.000001", b"mysql-bin.000007"])
def test_an_unrequested_binlog_is_refused(kit: RelayKit, name: bytes) -> None:
    assert refusal(kit, Rogue(sends(rotate(name)))).code == "DM-4023"


@pytest.mark.parametrize("name", ["../../x.000001", "/etc/passwd", "..", "mysql-bin.000001\0"])
def test_a_list_of_binlogs_with_a_path_in_it(kit: RelayKit, name: str) -> None:
    assert refusal(kit, Rogue(binlogs=[(name, "400")]), relay_binlog_name="").code == "DM-1101"


def test_a_binlog_name_that_is_too_long_for_the_disk(kit: RelayKit) -> None:
    name = "x" * 300 + ".000001"
    rogue = Rogue(sends(rotate(name.encode()), *EVENTS[:2]), binlogs=[(name, "400")])
    assert refusal(kit, rogue, relay_binlog_name="").code == "DM-4004"


def test_an_event_of_two_gigabytes(kit: RelayKit) -> None:
    def dump(session: Session) -> None:
        session.event(rotate(FIRST_NAME.encode()))
        head = struct.pack("<IBIIIH", 1, 30, 7, 1 << 31, 0, 0)
        session.sock.sendall(b"\xff\xff\xff\x01\0" + head + bytes(1000))
        time.sleep(5)

    assert "the limit is" in refusal(kit, Rogue(dump)).message


def test_endless_fragments_of_a_small_event(kit: RelayKit) -> None:
    def dump(session: Session) -> None:
        session.event(rotate(FIRST_NAME.encode()))
        body = struct.pack("<IBIIIH", 1, 30, 7, 20_000_000, 0, 0)
        payload = b"\0" + body + bytes(0xFFFFFF - 1 - len(body))
        for sequence in range(200):
            session.sock.sendall(b"\xff\xff\xff" + bytes([(sequence + 2) & 0xFF]) + payload)
            payload = bytes(0xFFFFFF)

    assert refusal(kit, Rogue(dump)).code == "DM-4011"


@pytest.mark.parametrize("query", ["SESSION sql_mode", "VERSION()", "SHOW BINARY LOGS", "binlog_checksum"])
def test_the_server_requests_a_file_of_this_machine(kit: RelayKit, query: str) -> None:
    rogue = Rogue(answers={query: local_infile("/etc/passwd")})
    error = refusal(kit, rogue)
    assert error.code.startswith("DM-")
    assert error.code != "DM-0000"
    assert b"root:" not in rogue.received


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder = tmp_path_factory.mktemp("tls")
    how = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-keyout", "key", "-out", "cert"]
    subprocess.run(["openssl", "req", "-x509", *how], cwd=folder, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")
    return context


def test_tls_is_required_and_not_offered(kit: RelayKit) -> None:
    """Not one byte of a login goes out in clear."""
    rogue = Rogue(after_start())
    error = refusal(kit, rogue, {"use_tls": True})
    assert error.code == "DM-2005"
    assert rogue.received == b""


def test_tls_is_dropped_in_the_middle(kit: RelayKit, tls: ssl.SSLContext) -> None:
    """The stream ends; later connections are offered no TLS: the relay retries, and never sends its login."""
    rogue = Rogue(after_start(*EVENTS[2:5]), tls=tls, tls_connections=2)
    with rogue.listening():
        process = kit.start("stopped", endpoint_of(rogue, use_tls=True))
        deadline = time.monotonic() + 300
        while rogue.connections < 5 and process.alive():
            assert time.monotonic() < deadline, kit.log()
            time.sleep(0.05)
        process.kill()
    assert b"relay" not in rogue.received  # the user's name, as in the login
    assert "Traceback" not in kit.log(), kit.log()
    nothing_outside(kit)


def test_the_password_is_never_sent_in_clear(kit: RelayKit) -> None:
    rogue = Rogue(after_start(), switch_to=b"mysql_clear_password")
    assert refusal(kit, rogue).code in ("DM-2001", "DM-2002", "DM-2004")
    assert b"secret" not in rogue.received


@pytest.mark.parametrize("seed", range(4))
def test_random_packets_are_refused(kit: RelayKit, seed: int) -> None:
    chance = random.Random(seed)

    def dump(session: Session) -> None:
        session.event(rotate(FIRST_NAME.encode()))
        for _ in range(20):
            session.send(b"\0" + chance.randbytes(chance.choice([0, 5, 18, 19, 40, 3000])))
        time.sleep(1)

    assert refusal(kit, Rogue(dump)).code.startswith(("DM-40", "DM-30"))


def test_a_wrong_checksum(kit: RelayKit) -> None:
    assert refusal(kit, Rogue(after_start(DAMAGED))).code == "DM-3003"


def test_an_error_with_control_characters(kit: RelayKit) -> None:
    def dump(session: Session) -> None:
        session.error(1236, b'\x1b]0;owned\x07\x1b[2J\r\nDM-ERROR {"ErrCode": "DM-0000"}\x00\xff\xfe')

    error = refusal(kit, Rogue(dump))
    assert error.code == "DM-4024"
    assert printable(error.message)


@pytest.mark.parametrize("name", ["mysql-bin.000001", "mysql-bin.000002"])
def test_a_rotate_that_goes_backwards(kit: RelayKit, name: str) -> None:
    """It goes from the second or third file, which was pulled whole, to an older one."""
    events = [rotate(FIRST_NAME.encode())]
    for file in UPSTREAM.files[:3]:
        events += [rotate(file.name.encode()), *(event for _at, event in file.events())]
    rogue = Rogue(sends(*events, rotate(name.encode())), binlogs=[(file.name, "9999999") for file in UPSTREAM.files])
    assert refusal(kit, rogue).code == "DM-4023"


def test_a_rotate_to_another_position_is_refused(kit: RelayKit) -> None:
    assert "has omitted events" in refusal(kit, Rogue(after_start(*EVENTS[4:8]))).message


@pytest.mark.parametrize("position", [120, 1 << 40, (1 << 64) - 1])
def test_a_rotate_to_another_position_of_the_same_file(kit: RelayKit, position: int) -> None:
    """A fabricated ROTATE names another file; the stream then continues as if nothing were missing."""
    rogue = Rogue(after_start(rotate(FIRST_NAME.encode(), position), *EVENTS[2:6]))
    assert refusal(kit, rogue).code in ("DM-4011", "DM-4023")


@pytest.mark.parametrize("answer", [OK, b"\xff\x00\x00#HY000what?"], ids=["no rows", "an error without a number"])
def test_a_login_without_needed_server_variables_is_refused(answer: bytes) -> None:
    rogue = Rogue(answers={"@@max_allowed_packet": answer})
    with rogue.listening(), pytest.raises(ServerUnreachable):
        connect(Endpoint("rogue", "127.0.0.1", rogue.port, "relay"))


@pytest.mark.parametrize("uuid", ["../../../tmp/evil", "/tmp/evil", "..", "", "a/b", "x" * 300, "a\nb", ".hidden"])
def test_a_server_uuid_that_is_no_folder_name(kit: RelayKit, uuid: str) -> None:
    assert refusal(kit, Rogue(after_start(), uuid=uuid)).code == "DM-4001"


@pytest.mark.parametrize(
    "executed",
    [
        "no set at all",
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-0",
        ",".join(f"{number:08x}-71ca-11e1-9e33-c80aa9429562:1-{number + 1}" for number in range(100_000)),
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:" + ":".join(str(2 * number + 1) for number in range(300_000)),
    ],
    ids=["nonsense", "backwards", "many-servers", "many-gaps"],
)
def test_an_invalid_or_huge_executed_gtid_set_is_refused(kit: RelayKit, executed: str) -> None:
    error = refusal(kit, Rogue(after_start(DAMAGED), executed=executed), enable_gtid=True)
    assert error.code.startswith("DM-")
