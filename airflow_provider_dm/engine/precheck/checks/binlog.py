"""The binlog is on and written in the form that rows can be read from, and still has what the task begins with."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_dm.engine.errors import MIGRATE_AGAIN
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize, current_location, list_binlogs
from airflow_provider_dm.engine.mysql.connection import query, text
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.precheck.facts import SourceFacts
from airflow_provider_dm.engine.precheck.result import Findings, State, named, verdict
from airflow_provider_dm.engine.relay.held_start import start_without_effect
from airflow_provider_dm.engine.target.subtask import noted_place


def check_enabled(facts: SourceFacts) -> Findings:
    remedy = "Set log_bin (and server_id) in the server's configuration, restart it."
    return verdict(not facts.binlog.log_bin, State.FAIL, "the binlog is off", remedy, fine="the binlog is on")


def check_format(facts: SourceFacts) -> Findings:
    found = facts.binlog.format
    return _set_globally("binlog_format", found, "ROW", wrong=found.upper() != "ROW", fine="binlog_format is ROW")


def check_row_image(facts: SourceFacts) -> Findings:
    found = facts.binlog.row_image
    return _set_globally("binlog_row_image", found, "FULL", wrong=found not in ("FULL", ""), fine="row images are full")


def _set_globally(name: str, found: str, wanted: str, *, wrong: bool, fine: str) -> Findings:
    remedy = f"SET GLOBAL {name} = '{wanted}', also in the configuration file, and let all sessions reconnect."
    return verdict(wrong, State.FAIL, f"{name} is {found}", remedy, fine=fine)


def check_compression(facts: SourceFacts) -> Findings:
    name = facts.info.capabilities.compression_variable
    how = f"compressed ({name}), and read so" if facts.binlog.compression else "not compressed"
    return [(State.OK, f"the binlog is {how}", "")]


def check_schemas(facts: SourceFacts) -> Findings:
    """Check binlog-do-db and binlog-ignore-db: what is not written cannot be replicated."""
    if not facts.binlog.log_bin:
        return []
    ((_, _, do, ignore, *_),) = query(facts.connection, facts.info.capabilities.binlog_status)
    only, never = _names(do), _names(ignore)
    schemas = sorted({name.schema for name in facts.selected})
    missing = [schema for schema in schemas if (only and schema not in only) or (not only and schema in never)]
    what = f"changes of these schemas are not written to the binlog: {named(missing)}"
    remedy = "Take them out of binlog-ignore-db (or into binlog-do-db) and restart the server."
    return verdict(missing, State.FAIL, what, remedy, fine="all selected schemas are written to the binlog")


def check_start(facts: SourceFacts) -> Findings:
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


def _check_meta(start: Location, binlogs: Sequence[BinlogSize]) -> Findings:
    size = dict(binlogs).get(start.file)
    if size is None:
        remedy = "Begin with a file that the source has, or with a full migration (task-mode all)."
        yield State.FAIL, f"the start {start} is not in the source's binlogs ({_files(binlogs)})", remedy
    elif start.position > size:
        remedy = "Correct binlog-pos of `meta`: the place where a transaction begins, or where the log ended."
        yield State.FAIL, f"the start {start} is not in the source's binlogs: that file ends at {size}", remedy
    else:
        yield State.OK, f"{start.file} is still there", ""


def _check_checkpoint(facts: SourceFacts, place: Location, binlogs: Sequence[BinlogSize]) -> Findings:
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
        what = f"the task goes on from {place}, which the source has purged: it has {_files(binlogs)}"
        yield State.WARN, what, remedy
    elif size < place.position:
        remedy = f"The source lost a part of its binlog, which is applied already: {MIGRATE_AGAIN}."
        yield State.FAIL, f"the task goes on from {place}, and that file ends at {size} on the source", remedy
    else:
        yield State.OK, f"the task goes on from {place}", ""


def _files(binlogs: Sequence[BinlogSize]) -> str:
    return named([one.name for one in binlogs])


def check_gtid(facts: SourceFacts) -> Findings:
    location = current_location(facts.connection)
    mode = facts.binlog.gtid_mode
    if mode.upper() == "ON":
        return [(State.OK, f"the binlog is at {location}", "")]
    if facts.config.enable_gtid:
        remedy = "Set gtid_mode=ON on the source, or enable-gtid: false in its source.yaml."
        return [(State.FAIL, f"enable-gtid is true and gtid_mode is {mode or 'unknown'}", remedy)]
    remedy = "Without GTIDs a failover of the source cannot be followed."
    return [(State.WARN, f"gtid_mode is {mode or 'unknown'}; the binlog is at {location}", remedy)]


def check_retention(facts: SourceFacts) -> Findings:
    seconds = facts.binlog.expire_seconds
    remedy = "Keep binlogs for at least some hours, so that a relay that was down can go on."
    what = f"the source removes binlogs after {seconds} s"
    fine = "binlogs are kept for a while" if seconds else "binlogs are not removed by time"
    return verdict(0 < seconds < 3600, State.WARN, what, remedy, fine=fine)


def check_relay_start(facts: SourceFacts) -> Findings:
    """Check that the configured beginning of the relay log still has an effect."""
    assert facts.relay_dir is not None
    what, remedy = start_without_effect(facts.config, facts.relay_dir)
    return verdict(what, State.WARN, what, remedy, fine="the relay log begins where it is configured, or earlier")


def _names(cell: object) -> set[str]:
    return {name.strip() for name in text(cell or b"").split(",") if name.strip()}
