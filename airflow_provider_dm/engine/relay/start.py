"""The location at which the relay begins or continues, by the held log, the configuration and the upstream's files.

In this order: the log in the relay directory; `relay-binlog-name` or `relay-binlog-gtid`, unless all that tasks need is
later; the oldest location that a task needs; the upstream's current file. A file is always pulled from its first event.
Nothing is skipped to make a start possible. Decisions only: `open_writer` queries the upstream and acts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.errors import InvalidInput, NotSupportedYet
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.connection import ServerInfo
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location
from airflow_provider_dm.engine.relay.directory import SubDir
from airflow_provider_dm.engine.relay.errors import BinlogPurged, InvalidSubDir, UpstreamLogDiffers, UpstreamSwitched
from airflow_provider_dm.engine.relay.recovery import boundary_after
from airflow_provider_dm.engine.relay.writer import RelayWriter

COMPARED_BYTES: Final = 16 << 20
"""Up to this size, the last transaction is pulled again at a reconnect and compared with the held one."""


def refuse_unsupported(config: SourceConfig, flavour: Flavour) -> None:
    """Raise NotSupportedYet for an unsupported source, InvalidInput for a server of another family than configured."""
    if not (server := CAPABILITIES[flavour]).writes_binlog:
        raise NotSupportedYet(f"{server.title} as a source", f"source {config.source_id}", "Use TiCDC to follow TiDB.")
    if config.flavor and config.flavor != flavour.value:
        raise InvalidInput(
            f"source {config.source_id} has the flavor {config.flavor}, but a {flavour.value} server answers.",
            "Check the address; or set flavor to the server's, or omit it.",
        )


# The first file of an empty relay


@dataclass(frozen=True)
class ByName:
    """The upstream's file of this name."""

    file: BinlogFile


@dataclass(frozen=True)
class ByGtid:
    """The newest file whose earlier transactions are all in this set."""

    known: GtidSet


@dataclass(frozen=True)
class Latest:
    """The upstream's current file: no task needs an older one."""


FirstPosition: TypeAlias = ByName | ByGtid | Latest


def first_start(
    config: SourceConfig, info: ServerInfo, needed: Location | None, last_known: str
) -> tuple[FirstPosition, int]:
    """Decide with which file, and in a sub-directory of which number, an empty relay begins for this server.

    `last_known`: the last known sub-directory, or "". A needed position is valid only on the server that wrote it. With
    GTIDs another server may be used: its log goes to a later sub-directory, and readers skip applied transactions.
    Raises InvalidLocation, InvalidGtidSet or UpstreamSwitched.
    """
    same = needed is None or _is_its_own(needed, config, info, last_known)
    suffix = 1 if needed is None else needed.suffix + (0 if same else 1)
    configured = _configured(config, info)
    if needed is None:
        return configured or Latest(), suffix
    if configured is not None and not _is_later(needed, configured, info, same=same):
        return configured, suffix
    if same:
        return ByName(BinlogFile.parse(needed.file)), suffix
    return ByGtid(GtidSet.parse(needed.gtid_set, info.flavour)), suffix


def starts_by_gtid(config: SourceConfig) -> bool:
    """Return True if the configured beginning is `relay-binlog-gtid` instead of `relay-binlog-name`."""
    return bool(config.relay_binlog_gtid) and (config.enable_gtid or not config.relay_binlog_name)


def _configured(config: SourceConfig, info: ServerInfo) -> ByName | ByGtid | None:
    if starts_by_gtid(config):
        return ByGtid(GtidSet.parse(config.relay_binlog_gtid, info.flavour))
    return ByName(BinlogFile.parse(config.relay_binlog_name)) if config.relay_binlog_name else None


def _is_later(needed: Location, configured: ByName | ByGtid, info: ServerInfo, *, same: bool) -> bool:
    """Return True if the needed location is after the configured one, whose files the upstream may have purged."""
    if isinstance(configured, ByGtid):
        return bool(needed.gtid_set) and GtidSet.parse(needed.gtid_set, info.flavour).contains(configured.known)
    file = BinlogFile.parse(needed.file)
    return same and file.base == configured.file.base and file.number > configured.file.number


def _is_its_own(needed: Location, config: SourceConfig, info: ServerInfo, last_known: str) -> bool:
    """Return True if a needed position is in this server's log; with GTIDs that must be known, otherwise it is assumed.

    Raises UpstreamSwitched if it is known to be another server's, and there are only positions.
    """
    wrote = _who_wrote(needed, last_known)
    if wrote == info.server_uuid:
        return True
    if config.enable_gtid and needed.gtid_set:
        return False
    if wrote is not None:
        raise UpstreamSwitched(wrote, info.server_uuid)
    return True


def _who_wrote(needed: Location, last_known: str) -> str | None:
    """Return the server whose log contains the location; None if unknown."""
    if needed.server_uuid:
        return needed.server_uuid
    try:
        sub_dir = SubDir.parse(last_known)
    except InvalidSubDir:
        return None
    return sub_dir.server_uuid if sub_dir.suffix == needed.suffix else None


# Continuing


def resume_position(writer: RelayWriter, *, by_gtid: bool) -> int:
    """Return the position, in bytes, from which to request the writer's file: the start of its last transaction.

    If that is more than COMPARED_BYTES before the end, the last boundary: the transaction's end if it is complete. A
    position beyond the 32 bits of COM_BINLOG_DUMP is replaced by the file's start; then the whole file is compared.
    """
    if not writer.size:
        return BINLOG_HEADER_SIZE
    position = writer.begun
    if writer.size - position > COMPARED_BYTES:
        position = boundary_after(writer.path, position)
    can_be_asked_for = position <= 0xFFFF_FFFF or (by_gtid and CAPABILITIES[writer.flavour].dumps_by_gtid)
    return position if can_be_asked_for else BINLOG_HEADER_SIZE


def check_available(file: BinlogFile, size: int, binlogs: Sequence[BinlogSize]) -> None:
    """Raise BinlogPurged or UpstreamLogDiffers unless the upstream has this file with at least `size` bytes."""
    name, needed = str(file), f"{file}:{max(size, BINLOG_HEADER_SIZE)}"
    sizes = {binlog.name: binlog.size for binlog in binlogs}
    if name not in sizes:
        if binlogs and file.number > BinlogFile.parse(binlogs[-1].name).number:
            raise UpstreamLogDiffers(needed, f"the upstream has {_range(binlogs)}")
        raise BinlogPurged(needed, _range(binlogs))
    if sizes[name] < size:
        raise UpstreamLogDiffers(needed, f"the upstream's file ends at {sizes[name]}")


def _range(binlogs: Sequence[BinlogSize]) -> str:
    return f"{binlogs[0].name} to {binlogs[-1].name}" if binlogs else "no binlog"


def is_left_behind(file: BinlogFile, binlogs: Sequence[BinlogSize]) -> bool:
    """Return True if the upstream's log begins after this file: the rest of the file can never be pulled."""
    if not binlogs:
        return False
    oldest = BinlogFile.parse(binlogs[0].name)
    return file.base == oldest.base and file.number < oldest.number
