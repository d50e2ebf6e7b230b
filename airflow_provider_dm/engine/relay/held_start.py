"""A check of the configured beginning of a relay log: an existing relay log continues at its end instead."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.repetitions import named_before
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import BinlogFile
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.relay.start import starts_by_gtid


def start_without_effect(config: SourceConfig, directory: Path) -> tuple[str, str]:
    """Return why `relay-binlog-name` or `relay-binlog-gtid` has no effect, and the remedy; two empty texts if it has
    one.

    A relay log that begins at or before the configured location satisfies it. Reads the directory only.
    """
    by_gtid = starts_by_gtid(config)
    key, value = ("gtid", config.relay_binlog_gtid) if by_gtid else ("name", config.relay_binlog_name)
    held = RelayReader(directory).held() if value else []
    if not held or (_holds_behind_gtid(held[0], value) if by_gtid else _holds_from_file(held[0], value)):
        return "", ""
    what = (
        f"relay-binlog-{key} {value} of source {config.source_id} has no effect: {directory} already contains a relay "
        f"log, which begins with {held[0].name} and continues at its end"
    )
    remedy = (
        f"To begin there, end the relay (`dmctl stop-relay -s {config.source_id}`), move the directory away, and start "
        "the relay again (`dmctl start-relay`, DmRelayOperator). Otherwise remove the key from the source's file."
    )
    return what, remedy


def _holds_from_file(first: LogFile, name: str) -> bool:
    held, wanted = BinlogFile.parse(first.name), BinlogFile.parse(name)
    return held.base == wanted.base and held.number <= wanted.number


def _holds_behind_gtid(first: LogFile, wanted: str) -> bool:
    """Return True unless the head of the file names transactions that the wanted set does not contain."""
    try:
        before = named_before(first)
        return before is None or before.parse_text(wanted).contains(before)
    except (DmError, OSError):
        return True  # the relay itself reports the file's error
