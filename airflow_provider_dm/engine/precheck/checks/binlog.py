"""The binlog is enabled, has a row format that can be decoded, and still has the location at which the task starts."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_dm.engine.downstream.subtask import noted_place
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize, current_location, list_binlogs
from airflow_provider_dm.engine.mysql.connection import query, text
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.precheck.facts import SourceFacts
from airflow_provider_dm.engine.precheck.result import Findings, State, short_list, verdict
from airflow_provider_dm.engine.relay.held_start import start_without_effect


def check_enabled(facts: SourceFacts) -> Findings:
    remedy = "Set log_bin (and server_id) in the server's configuration, restart it."
    return verdict(not facts.binlog.log_bin, State.FAIL, "the binlog is off", remedy, fine="the binlog is on")


def check_format(facts: SourceFacts) -> Findings:
    value = facts.binlog.format
    return _set_globally("binlog_format", value, "ROW", wrong=value.upper() != "ROW", fine="binlog_format is ROW")


def check_row_image(facts: SourceFacts) -> Findings:
    value, options = facts.binlog.row_image, facts.binlog.value_options
    if options:
        return _set_globally("binlog_row_value_options", options, "", wrong=True, fine="")
    return _set_globally("binlog_row_image", value, "FULL", wrong=value not in ("FULL", ""), fine="row images are full")


def _set_globally(name: str, found: str, wanted: str, *, wrong: bool, fine: str) -> Findings:
    remedy = f"SET GLOBAL {name} = '{wanted}', also in the configuration file, and let all sessions reconnect."
    return verdict(wrong, State.FAIL, f"{name} is {found}", remedy, fine=fine)


def check_schemas(facts: SourceFacts) -> Findings:
    """Check binlog-do-db and binlog-ignore-db: changes that are not logged cannot be replicated."""
    if not facts.binlog.log_bin:
        return []
    ((_, _, do, ignore, *_),) = query(facts.connection, facts.info.capabilities.binlog_status)
    only, never = _names(do), _names(ignore)
    schemas = sorted({name.schema for name in facts.selected})
    missing = [schema for schema in schemas if (only and schema not in only) or (not only and schema in never)]
    what = f"changes of these schemas are not written to the binlog: {short_list(missing)}"
    remedy = "Remove them from binlog-ignore-db (or add them to binlog-do-db) and restart the server."
    return verdict(missing, State.FAIL, what, remedy, fine="all selected schemas are written to the binlog")


def check_start(facts: SourceFacts) -> Findings:
    """Check that the log still has the location to read from: the checkpoint, or `meta` if there is no checkpoint."""
    configured = facts.subtask.start
    place = noted_place(facts.known, configured)
    if place is None and facts.copies:
        return
    if place is None:
        remedy = "Give `meta` with binlog-name and binlog-pos, the location that matches the target's rows."
        yield State.FAIL, "task-mode incremental, with neither a checkpoint nor `meta`", remedy
    elif place is configured:
        yield from _check_meta(place, list_binlogs(facts.connection))
    else:
        yield from _check_checkpoint(facts, place, list_binlogs(facts.connection))


def _check_meta(start: Location, binlogs: Sequence[BinlogSize]) -> Findings:
    size = dict(binlogs).get(start.file)
    if size is None:
        remedy = "Start with a file that the source has, or with a full migration (task-mode all)."
        yield State.FAIL, f"the start {start} is not in the source's binlogs ({_files(binlogs)})", remedy
    elif start.position > size:
        remedy = "Correct binlog-pos of `meta`: the position at which a transaction begins, or the end of the log."
        yield State.FAIL, f"the start {start} is not in the source's binlogs: that file ends at {size}", remedy
    else:
        yield State.OK, f"the source still has {start.file}", ""


def _check_checkpoint(facts: SourceFacts, place: Location, binlogs: Sequence[BinlogSize]) -> Findings:
    size = dict(binlogs).get(place.file)
    if place.server_uuid and place.server_uuid != facts.info.server_uuid:
        found = f"the task continues at {place} of server {place.server_uuid}, not of {facts.info.server_uuid}"
        if facts.config.enable_gtid:
            yield State.OK, f"{found}: with GTID this is a failover", ""
        elif size is not None and size >= place.position:
            remedy = "The relay compares the files: it continues if they are the same, and else stops with DM-4030."
            yield State.WARN, found, remedy
        else:
            remedy = "Point the source back to that server, or set enable-gtid: true if this one has all of its log."
            yield State.FAIL, found, remedy
    elif size is None:
        remedy = f"Do not remove the relay log. If it does not contain that location either, {MIGRATE_AGAIN}."
        what = f"the task continues at {place}, which the source has purged: it has {_files(binlogs)}"
        yield State.WARN, what, remedy
    elif size < place.position:
        remedy = f"The source lost a part of its binlog, which the task has already applied: {MIGRATE_AGAIN}."
        yield State.FAIL, f"the task continues at {place}, but that file ends at {size} on the source", remedy
    else:
        yield State.OK, f"the task continues at {place}", ""


def _files(binlogs: Sequence[BinlogSize]) -> str:
    return short_list([binlog.name for binlog in binlogs])


def check_gtid(facts: SourceFacts) -> Findings:
    location = current_location(facts.connection)
    mode = facts.binlog.gtid_mode
    if mode.upper() == "ON":
        return [(State.OK, f"the binlog is at {location}", "")]
    if facts.config.enable_gtid:
        remedy = "Set gtid_mode=ON on the source, or enable-gtid: false in its source.yaml."
        return [(State.FAIL, f"enable-gtid is true, but gtid_mode is {mode or 'unknown'}", remedy)]
    remedy = "Without GTIDs the task cannot continue after a failover of the source."
    return [(State.WARN, f"gtid_mode is {mode or 'unknown'}; the binlog is at {location}", remedy)]


def check_retention(facts: SourceFacts) -> Findings:
    seconds = facts.binlog.expire_seconds
    remedy = "Keep binlogs for at least some hours, so that a relay can continue after an interruption."
    what = f"the source removes binlogs after {seconds} s"
    fine = "binlogs are kept long enough" if seconds else "binlogs are not removed by time"
    return verdict(0 < seconds < 3600, State.WARN, what, remedy, fine=fine)


def check_relay_start(facts: SourceFacts) -> Findings:
    """Check that the configured start of the relay log still has an effect."""
    assert facts.relay_dir is not None
    what, remedy = start_without_effect(facts.config, facts.relay_dir)
    return verdict(what, State.WARN, what, remedy, fine="the relay log begins at the configured start, or earlier")


def _names(cell: object) -> set[str]:
    return {name.strip() for name in text(cell or b"").split(",") if name.strip()}
