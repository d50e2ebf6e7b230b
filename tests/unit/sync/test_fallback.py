"""The conditions under which a sync leaves its relay log for the upstream, and returns."""

import pytest

from airflow_provider_dm.engine.binlog.errors import (
    BrokenFileChain,
    ChangeNotInLog,
    ChecksumMismatch,
    EventTooLarge,
    LocationNotInLog,
    MalformedEvent,
    XaRowsGone,
)
from airflow_provider_dm.engine.errors import DmError, Reaction, ReportedError, describe
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.mysql.errors import ServerUnreachable
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.errors import (
    BinlogPurged,
    RelayDirectoryUnusable,
    RelayFileGone,
    RelayStartsTooLate,
)
from airflow_provider_dm.engine.sync.errors import OtherUpstream, PrivateRelayEnded
from airflow_provider_dm.engine.sync.log.fallback import Fault, both_logs_failed, fault_of

HERE = Location("bin.000003", 500)
WELL = RelayStatus("one", Stage.RUNNING, relay=HERE, heartbeat_age_seconds=1.0, pid=7)
FULL = {"ErrCode": "DM-4003", "Message": "no space left"}


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (RelayFileGone("bin.000003", "/relay"), Fault.LOG),
        (RelayStartsTooLate("bin.000003:4", "bin.000004", "/relay"), Fault.LOG),
        (ChecksumMismatch("bin.000003:4", 1, 2), Fault.LOG),
        (MalformedEvent("bin.000003:4", "a size of 3 bytes"), Fault.LOG),
        (BrokenFileChain("bin.000003", "bin.000004", "bin.000005"), Fault.LOG),
        (LocationNotInLog("bin.000003:4", "the files are none"), Fault.LOG),
        (XaRowsGone("bin.000003:4", "X'78',X'',1", "bin.000002:4"), Fault.LOG),
        (EventTooLarge("bin.000003:4", 1 << 31), Fault.SUSPECT),
        (ChangeNotInLog("bin.000003:4", "UPDATE t", ""), Fault.OTHER),
        (DmError(), Fault.OTHER),
    ],
)
def test_the_meaning_of_an_error_for_the_log(error: DmError, fault: Fault) -> None:
    assert fault_of(error) is fault


def ended(error: DmError) -> PrivateRelayEnded:
    return PrivateRelayEnded(ReportedError.of(error))


@pytest.mark.parametrize("reaction", ["retry", "stop"])
def test_if_both_logs_fail_the_error_of_the_upstream_decides_about_a_retry(reaction: str) -> None:
    ended_by = {"ErrCode": "DM-1", "ErrScope": "upstream", "Message": "gone. Do it.", "Reaction": reaction}
    upstream = PrivateRelayEnded(ReportedError.read(ended_by | {"Workaround": "Do it."}))
    error = both_logs_failed("one", str(HERE), MalformedEvent("f:4", "damaged"), upstream, by_gtid=False)
    assert error.reacts() is Reaction(reaction)
    assert describe(error)["Reaction"] == reaction
    assert "damaged" in error.local
    assert error.upstream == "[DM-1 upstream] gone."
    assert describe(error)["Workaround"] == "The upstream may still have it. Do it."


PURGED = BinlogPurged("bin.000003:4", "bin.000007")
GONE = RelayFileGone("bin.000003", "/relay")
UNREACHABLE = ServerUnreachable("one (dm@host:3306)", "no route to host")
RETRIED = ("Start the relay", "The upstream may still have it. Check host, port")
"""The advice for faults of the upstream that may pass: a relay can follow another server by GTID."""


@pytest.mark.parametrize(
    ("local", "upstream", "by_gtid", "advice"),
    [
        (GONE, PURGED, False, "migrate in full again with another task"),
        (GONE, ended(PURGED), False, "migrate in full again with another task"),
        (RelayDirectoryUnusable("/relay", "Permission denied"), PURGED, False, "Set relay-dir to"),
        (GONE, UNREACHABLE, False, "The upstream may still have it. Check host, port"),
        (GONE, OtherUpstream("a", "b"), False, "Point the source back"),
        (GONE, OtherUpstream("a", "b"), True, "Start the relay"),
        (ChecksumMismatch("f:4", 1, 2), ChecksumMismatch("f:4", 1, 2), False, "its own file is damaged"),
    ],
)
def test_if_both_logs_fail_only_possible_remedies_are_named(
    local: DmError, upstream: DmError, by_gtid: bool, advice: str
) -> None:
    error = both_logs_failed("one", str(HERE), local, upstream, by_gtid=by_gtid)
    assert advice in error.workaround()
    assert (error.reacts() is Reaction.RETRY) == (advice in RETRIED)
    assert error.message().endswith(error.workaround())
    for one in (local, upstream):
        assert one.happened().removesuffix(one.workaround()).strip() in error.message()
        assert one.hint not in error.message().removesuffix(error.workaround()) or not one.hint
