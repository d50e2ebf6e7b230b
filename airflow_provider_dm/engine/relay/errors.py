"""The errors of the relay log: of its upstream, its directory, its readers and its purge."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, DmError, Reaction, UpstreamError


class InvalidSubDir(DmError):
    text: str

    code = "DM-4001"
    what = "{text!r} is not the name of a relay sub-directory."
    hint = "The form is SERVER-UUID.NUMBER, as in server-uuid.index."


class RelayDirectoryUnusable(DmError):
    path: str
    reason: str

    code = "DM-4002"
    what = "the relay directory {path} cannot be used: {reason}."
    hint = "Set relay-dir to a local directory that this user may write."


class RelayDiskFull(DmError):
    """The disk has no space for the relay log. Complete data is kept; the file ends at a transaction boundary."""

    path: str

    code = "DM-4003"
    what = "no space left on the device while writing {path}."
    hint = (
        "Free space, or purge relay files that no task needs. A running relay then resumes automatically; otherwise "
        "start it again."
    )


class RelayDiskFailed(DmError):
    """The disk refused a write, an fsync, a rename or a removal. Data written since the last successful fsync may be
    lost; files that a purge did not delete keep their names, or get them back at the start.
    """

    path: str
    reason: str

    code = "DM-4004"
    what = "writing or purging {path} failed: {reason}."
    hint = "Check the disk and the owner of the files, then repeat: the relay verifies its file and continues."


class RelayLocked(DmError):
    directory: str
    holder: str

    code = "DM-4005"
    what = "another relay writes to {directory} ({holder})."
    hint = "One relay serves all tasks of a source. Give every source its own relay-dir."


class PacketsBroken(UpstreamError):
    """The packets of the stream are not a valid sequence of events, or no server writes such events."""

    found: str
    remedy: str = "Check proxies and networks between the relay and its upstream."

    code = "DM-4011"
    what = "the dump stream is broken: {found}."
    hint = "{remedy}"


class StreamLost(UpstreamError):
    reason: str

    code = "DM-4020"
    reaction = Reaction.RETRY
    what = "the connection to the upstream was lost: {reason}."
    hint = "The relay reconnects by itself."


class ReplicaIdTaken(UpstreamError):
    server_id: int

    code = "DM-4021"
    reaction = Reaction.RETRY
    what = "another replica of this upstream uses the server id {server_id}."
    hint = "Remove server-id from source.yaml, or give every replica its own."


class BinlogPurged(UpstreamError):
    needed: str
    available: str

    code = "DM-4022"
    what = "the upstream has purged {needed}; it still has {available}."
    hint = (
        "Nothing is skipped automatically. If every task of the source needs a location that the upstream still has "
        "(`dmctl purge-relay -s SOURCE --inactive --dry-run` names the oldest need), move the relay directory away and "
        "start the relay again: it begins with the oldest need; if there is none, without a relay-binlog-name that is "
        "purged. A task that needs an earlier location cannot continue: release it by `dmctl stop-task`, and "
        f"{MIGRATE_AGAIN}."
    )


class UpstreamLogDiffers(UpstreamError):
    """The upstream lost or rewrote the end of its binlog, or does not continue with the next file."""

    needed: str
    found: str

    code = "DM-4023"
    what = "the upstream's binlog differs from what was pulled: {needed} is needed, {found}."
    hint = (
        "It crashed with sync_binlog other than 1, its binlogs were reset or removed by hand, or the server was "
        "restored; the target may contain rows that the upstream does not have: use a new relay-dir, and "
        f"{MIGRATE_AGAIN}."
    )


class DumpRefused(UpstreamError):
    """The upstream ends the dump for a permanent reason."""

    number: int
    reason: str

    code = "DM-4024"
    what = "the upstream refuses to send its binlog (error {number}): {reason}."
    hint = (
        "Correct the cause that it names. MySQL sends transactions without a GTID only with enable-gtid: false and a "
        "gtid_mode other than ON: set gtid_mode=ON_PERMISSIVE and enable-gtid: false until they are applied."
    )


class GtidsPurged(UpstreamError):
    needed: str
    reason: str

    code = "DM-4025"
    what = "the upstream cannot continue after the GTID set {needed!r}: {reason}."
    hint = (
        "It has purged needed transactions, or never had them. Nothing is skipped automatically: point the source to a "
        f"server that has them, or use a new relay-dir and {MIGRATE_AGAIN}."
    )


class UpstreamFileTorn(UpstreamError):
    file: str
    reason: str

    code = "DM-4026"
    reaction = Reaction.RETRY
    what = "the upstream's {file} ends within an event ({reason})."
    hint = (
        "The upstream crashed while writing; the incomplete event was never committed. The relay continues with the "
        "next file as soon as it exists."
    )


class UpstreamLacks(UpstreamError):
    missing: str
    server: str
    final: bool = True

    code = "DM-4027"
    what = "server {server} does not have the transactions {missing}, which are in the relay log."
    hint = (
        "They were lost in a failover or a crash, and the target may contain their rows. If the server is still "
        f"catching up, start the relay again later; otherwise use a new relay-dir and {MIGRATE_AGAIN}."
    )

    @property
    def reaction(self) -> Reaction:  # type: ignore[override]
        """RETRY for LAG_ALLOWED_SECONDS, then STOP."""
        return Reaction.STOP if self.final else Reaction.RETRY


class TransactionsMissing(UpstreamError):
    file: str
    missing: str

    code = "DM-4028"
    what = "the upstream's {file} states that {missing} were committed before it, but they were not received."
    hint = (
        "The file before it is damaged or truncated. Point the source to a server that has all of them (enable-gtid: "
        f"true), or use a new relay-dir and {MIGRATE_AGAIN}."
    )


class UpstreamSwitched(UpstreamError):
    held: str
    found: str

    code = "DM-4030"
    what = "the relay log is of server {held}, but server {found} answers now."
    hint = (
        "Positions of one server are meaningless on another. Point the source back to the first server; or set "
        "enable-gtid: true, if both servers number their transactions by GTID and the new one has all of them; or, if "
        "you know that the new server has the binlog files of the first one (its disk, a copy of it), give it the "
        "identity of the first one, as shown above: server_uuid in auto.cnf (MySQL), gtid_domain_id and server_id "
        f"(MariaDB). Else use a new relay-dir and {MIGRATE_AGAIN}."
    )


class RelayFenced(DmError):
    directory: str
    generation: int
    holder: str

    code = "DM-4033"
    reaction = Reaction.FENCED
    what = "the relay of generation {generation} has lost the lock of {directory}; the lock file contains: {holder}."
    hint = (
        "The file relay.lock was removed, or locks do not exclude on this file system. Do not touch the file, and put "
        "relay-dir on a local disk."
    )


class RelayFileGone(DmError):
    file: str
    directory: str

    code = "DM-4040"
    what = "{file} is missing in {directory}."
    hint = (
        "It was purged or removed by hand. Tasks read it from the source if the source still has it. To repair the "
        "relay log, stop the relay, move the directory away and start the relay: it pulls the log again."
    )


class RelayStartsTooLate(DmError):
    needed: str
    first: str
    directory: str

    code = "DM-4041"
    what = "{needed} is needed, but the relay log in {directory} begins with {first}."
    hint = "Set relay-binlog-name to the needed file and use a new relay-dir."


class RelayOfAnotherServer(DmError):
    needed: str
    server: str
    found: str
    directory: str

    code = "DM-4049"
    what = "{needed} of server {server} is needed, but {directory} has the log of another server there: {found}."
    hint = (
        "A position of one server is meaningless on another. With enable-gtid: true and the same metadata DB "
        "(`meta-url`) a new relay-dir follows a failover; otherwise point the source back to the first server, or "
        f"{MIGRATE_AGAIN}."
    )


class PurgeRefused(DmError):
    """A request names what the relay log does not have, or the need of a task cannot be compared with it."""

    found: str
    remedy: str

    code = "DM-4050"
    what = "nothing is purged: {found}"
    hint = "{remedy}"


class NeedUnknown(DmError):
    task: str
    source: str
    stage: str

    code = "DM-4052"
    what = "nothing is purged: task {task} ({stage}) has not recorded what it needs of the relay log of {source}."
    hint = "Run it until it syncs; or, if that is not planned, release what it needs by `dmctl stop-task`."


class PurgeRuns(DmError):
    directory: str
    holder: str

    code = "DM-4054"
    reaction = Reaction.RETRY
    what = "another purge of {directory} is running ({holder})."
    hint = "It takes seconds; try again."


class NoRelayLog(DmError):
    source: str
    directory: str

    code = "DM-4055"
    what = "there is no relay log of {source} in {directory}."
    hint = "Run this on the relay's machine, with `--source-file` if the source's file has a `relay-dir`."


class TaskFellBehind(UpstreamError):
    task: str
    needed: str
    available: str

    code = "DM-4060"
    what = "task {task} needs the binlog from {needed} on, which the upstream has purged; it still has {available}."
    hint = (
        "Without `enable-relay: true` the log is pulled ahead of the task only up to `spool-limit-mb` of its "
        "source.yaml, also during the full load. Let the upstream keep its binlogs longer, set "
        f"`enable-relay: true` or a higher limit, and {MIGRATE_AGAIN}."
    )


class PlaceNotFound(UpstreamError):
    wanted: str
    reason: str

    code = "DM-4065"
    what = "the source's binlog has no location to begin at {wanted}: {reason}."
    hint = "Nothing was begun. Correct this, or give a location: `meta: {{binlog-name: FILE, binlog-pos: POSITION}}`."


class RelayRunsElsewhere(DmError):
    """A relay of the same source already runs, in another directory or on another machine."""

    source: str
    directory: str
    host: str
    pid: int

    code = "DM-4070"
    what = "another relay of source {source} is running: process {pid} on {host} writes {directory}."
    hint = (
        "One relay serves all tasks of a source. Use that relay's directory and machine, or end that relay by `dmctl "
        "stop-relay -s {source}` and start this one again."
    )
