"""The binlog is on and written in the form that rows can be read from, and still has what the task begins with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_provider_dm.engine.errors import MIGRATE_AGAIN
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize, current_location, list_binlogs
from airflow_provider_dm.engine.mysql.connection import query, text
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.precheck.facts import SourceFacts
from airflow_provider_dm.engine.precheck.result import State, named
from airflow_provider_dm.engine.target.subtask import noted_place


def check_enabled(facts: SourceFacts) -> Iterator[tuple[State, str, str]]:
    if facts.binlog.log_bin:
        yield State.OK, "the binlog is on", ""
    else:
        yield State.FAIL, "the binlog is off", "Set log_bin (and server_id) in the server's configuration, restart it."


def check_format(facts: SourceFacts) -> Iterator[tuple[State, str, str]]:
    if facts.binlog.format.upper() == "ROW":
        yield State.OK, "binlog_format is ROW", ""
    else:
        remedy = "SET GLOBAL binlog_format = 'ROW', also in the configuration file, and let all sessions reconnect."
        yield State.FAIL, f"binlog_format is {facts.binlog.format}", remedy


def check_row_image(facts: SourceFacts) -> Iterator[tuple[State, str, str]]:
    if facts.binlog.row_image in ("FULL", ""):
        yield State.OK, "row images are full", ""
    else:
        remedy = "SET GLOBAL binlog_row_image = 'FULL', also in the configuration file, and let all sessions reconnect."
        yield State.FAIL, f"binlog_row_image is {facts.binlog.row_image}", remedy


def check_compression(facts: SourceFacts) -> Iterator[tuple[State, str, str]]:
    name = facts.info.capabilities.compression_variable
    how = f"compressed ({name}), and read so" if facts.binlog.compression else "not compressed"
    yield State.OK, f"the binlog is {how}", ""


def check_schemas(facts: SourceFacts) -> Iterator[tuple[State, str, str]]:
    """Check binlog-do-db and binlog-ignore-db: what is not written cannot be replicated."""
    if not facts.binlog.log_bin:
        return
    ((_, _, do, ignore, *_),) = query(facts.connection, facts.info.capabilities.binlog_status)
    only, never = _names(do), _names(ignore)
    schemas = sorted({name.schema for name in facts.selected})
    missing = [schema for schema in schemas if (only and schema not in only) or (not only and schema in never)]
    if missing:
        remedy = "Take them out of binlog-ignore-db (or into binlog-do-db) and restart the server."
        yield State.FAIL, f"changes of these schemas are not written to the binlog: {named(missing)}", remedy
    else:
        yield State.OK, "all selected schemas are written to the binlog", ""


def check_start(facts: SourceFacts) -> Iterator[tuple[State, str, str]]:
    """Check where the log is read from: at the checkpoint, or at `meta` of an incremental task that has none."""
    configured = facts.subtask.start
    place = noted_place(facts.known, configured)
    if place is None and facts.copies:
        return
    if place is None:
        remedy = "Give `meta` with binlog-name and binlog-pos, the place that belongs to the target's rows."
        yield State.FAIL, "task-mode incremental, and there is neither a checkpoint nor `meta`", remedy
    elif place is configured:
        yield from _check_meta(place, list_binlogs(facts.connection))
    else:
        yield from _check_checkpoint(facts, place, list_binlogs(facts.connection))


def _check_meta(start: Location, binlogs: Sequence[BinlogSize]) -> Iterator[tuple[State, str, str]]:
    size = dict(binlogs).get(start.file)
    if size is None:
        remedy = "Begin with a file that the source has, or with a full migration (task-mode all)."
        yield State.FAIL, f"the start {start} is not in the source's binlogs ({named(_files(binlogs))})", remedy
    elif start.position > size:
        remedy = "Correct binlog-pos of `meta`: the place where a transaction begins, or where the log ended."
        yield State.FAIL, f"the start {start} is not in the source's binlogs: that file ends at {size}", remedy
    else:
        yield State.OK, f"{start.file} is still there", ""


def _check_checkpoint(
    facts: SourceFacts, place: Location, binlogs: Sequence[BinlogSize]
) -> Iterator[tuple[State, str, str]]:
    size = dict(binlogs).get(place.file)
    if place.server_uuid and place.server_uuid != facts.info.server_uuid:
        said = f"the task goes on from {place} of server {place.server_uuid}, and {facts.info.server_uuid} answers"
        if facts.config.enable_gtid:
            yield State.OK, f"{said}: by GTID that is a failover", ""
        else:
            remedy = "Point the source back to that server, or set enable-gtid: true if this one has all of its log."
            yield State.FAIL, said, remedy
    elif size is None:
        remedy = f"Do not remove the relay log. If it does not hold that either, {MIGRATE_AGAIN}."
        have = named(_files(binlogs))
        yield State.WARN, f"the task goes on from {place}, which the source has purged: it has {have}", remedy
    elif size < place.position:
        remedy = f"The source lost a part of its binlog, which is applied already: {MIGRATE_AGAIN}."
        yield State.FAIL, f"the task goes on from {place}, and that file ends at {size} on the source", remedy
    else:
        yield State.OK, f"the task goes on from {place}", ""


def _files(binlogs: Sequence[BinlogSize]) -> list[str]:
    return [one.name for one in binlogs]


def check_gtid(facts: SourceFacts) -> Iterator[tuple[State, str, str]]:
    location = current_location(facts.connection)
    if facts.binlog.gtid_mode.upper() != "ON":
        if facts.config.enable_gtid:
            remedy = "Set gtid_mode=ON on the source, or enable-gtid: false in its source.yaml."
            yield State.FAIL, f"enable-gtid is true and gtid_mode is {facts.binlog.gtid_mode or 'unknown'}", remedy
            return
        remedy = (
            "Without GTIDs the copy takes a short global read lock, and a failover of the source cannot be followed."
        )
        yield State.WARN, f"gtid_mode is {facts.binlog.gtid_mode or 'unknown'}; the binlog is at {location}", remedy
    else:
        yield State.OK, f"the binlog is at {location}", ""


def check_retention(facts: SourceFacts) -> Iterator[tuple[State, str, str]]:
    seconds = facts.binlog.expire_seconds
    if 0 < seconds < 3600:
        remedy = "Keep binlogs for at least some hours, so that a relay that was down can go on."
        yield State.WARN, f"the source removes binlogs after {seconds} s", remedy
    else:
        yield State.OK, "binlogs are kept for a while" if seconds else "binlogs are not removed by time", ""


def _names(cell: object) -> set[str]:
    return {name.strip() for name in text(cell or b"").split(",") if name.strip()}
