"""Where the relay begins or goes on, decided from what is here, what is configured and what the upstream still has.

In this order: what the relay directory holds; `relay-binlog-name`; the oldest location that a task needs; the
upstream's current file. A file is always pulled from its first event. Nothing is skipped to make a start possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.errors import DmError, NotSupportedYet, Scope
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize
from airflow_provider_dm.engine.mysql.connection import ServerInfo
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location
from airflow_provider_dm.engine.relay.directory import RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.protocol import MAX_POSITION, BinlogPurged, UpstreamLostTail
from airflow_provider_dm.engine.relay.recovery import boundary_after, recover
from airflow_provider_dm.engine.relay.writer import RelayWriter

COMPARED_BYTES: Final = 16 << 20
"""A last transaction up to this size is pulled again at a reconnect, to compare it with what is held."""


@dataclass(eq=False)
class UpstreamSwitched(DmError):
    """Another server answers than the one whose binlog the relay holds."""

    held: str
    found: str

    code: ClassVar[str] = "DM-4030"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the relay holds the binlog of server {held}, but server {found} answers now."
    hint: ClassVar[str] = (
        "Positions of one server mean nothing on another, and following a failover by GTID is not supported yet: point "
        "the source back to the first server, or migrate in full from the new one with a new relay-dir."
    )


def refuse_unsupported(config: SourceConfig, flavour: Flavour) -> None:
    """Raises NotSupportedYet for a start that this release cannot make."""
    if config.enable_gtid and config.relay_binlog_gtid:
        raise NotSupportedYet("relay-binlog-gtid", "source.yaml", "Name the file to start from: relay-binlog-name.")
    if flavour is Flavour.TIDB:
        raise NotSupportedYet("TiDB as a source", f"source {config.source_id}", "Use TiCDC to follow TiDB.")


def held_writer(directory: RelayDirectory, info: ServerInfo) -> RelayWriter | None:
    """The writer that goes on with what the directory holds, None when it holds no file.

    Cuts the last file back to a transaction boundary. Raises UpstreamSwitched and what `recover` raises.
    """
    sub_dir = directory.latest()
    if sub_dir is None:
        return None
    found = recover(directory, sub_dir, info.flavour)
    if found is None:
        return None
    if sub_dir.server_uuid != info.server_uuid:
        raise UpstreamSwitched(sub_dir.server_uuid, info.server_uuid)
    return RelayWriter.resume(directory, sub_dir, info.flavour, found)


def fresh_writer(directory: RelayDirectory, info: ServerInfo, file: BinlogFile) -> RelayWriter:
    """The writer of the first file of a new sub-directory, or of an empty one that is there already."""
    latest: SubDir | None = directory.latest()
    empty = latest is not None and latest.server_uuid == info.server_uuid and not directory.files(latest)
    sub_dir = latest if latest is not None and empty else directory.add(info.server_uuid)
    return RelayWriter(directory, sub_dir, info.flavour, file)


def first_file(config: SourceConfig, needed: Location | None, binlogs: Sequence[BinlogSize]) -> BinlogFile:
    """Where an empty relay begins: configured, needed, or the upstream's current file. Raises InvalidLocation."""
    if config.relay_binlog_name:
        return BinlogFile.parse(config.relay_binlog_name)
    return BinlogFile.parse(needed.file if needed is not None else binlogs[-1].name)


def resume_position(writer: RelayWriter) -> int:
    """From where to ask for the writer's file, in bytes: the last transaction's start, complete or not.

    A position beyond 32 bits cannot be asked for; then the file comes again from its start and is compared.
    """
    if not writer.size:
        return BINLOG_HEADER_SIZE
    position = writer.begun
    if writer.size - position > COMPARED_BYTES:
        position = boundary_after(writer.path, position)
    return position if position <= MAX_POSITION else BINLOG_HEADER_SIZE


def check_available(file: BinlogFile, size: int, binlogs: Sequence[BinlogSize]) -> None:
    """Raises BinlogPurged or UpstreamLostTail unless the upstream has this file, and the `size` bytes held of it."""
    name, needed = str(file), f"{file}:{max(size, BINLOG_HEADER_SIZE)}"
    sizes = {binlog.name: binlog.size for binlog in binlogs}
    available = f"{binlogs[0].name} to {binlogs[-1].name}" if binlogs else "no binlog"
    if name not in sizes:
        if binlogs and file.number > BinlogFile.parse(binlogs[-1].name).number:
            raise UpstreamLostTail(needed, f"the upstream has {available}")
        raise BinlogPurged(needed, available)
    if sizes[name] < size:
        raise UpstreamLostTail(needed, f"the upstream's file ends at {sizes[name]}")
