"""Opening the writer for a session: the server that answers, the held part of its log, and the location to continue at.

    the same server as before     the file continues at its end; its last transaction is compared
    another server, by GTID       a new sub-directory, once that server has all transactions that are held
    another server, by position   an error
    an empty directory            a first file (`start.first_start`)

Sub-directories are created only here. A crash at any point leaves a directory for which the next session makes the same
decision.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, assert_never

from airflow_provider_dm.engine.binlog.boundary import last_boundary
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize, current_location, list_binlogs
from airflow_provider_dm.engine.mysql.connection import Connection, ServerInfo
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay import start
from airflow_provider_dm.engine.relay.directory import RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.durable import disk_errors
from airflow_provider_dm.engine.relay.errors import GtidsPurged, StreamLost, UpstreamLacks, UpstreamSwitched
from airflow_provider_dm.engine.relay.meta import RelayMeta
from airflow_provider_dm.engine.relay.recovery import recover
from airflow_provider_dm.engine.relay.writer import RelayWriter

log = logging.getLogger(__name__)

LAG_ALLOWED_SECONDS: Final = 60.0
"""A server that has just been promoted may still be applying transactions that it has received."""
FORGOTTEN_SECONDS: Final = 900.0
"""Time after which a server's earlier lack of transactions is ignored: longer than the delay between attempts."""

Locate = Callable[[GtidSet], BinlogFile]
"""Asks the upstream in which file it would begin for a replica that has this set."""


@dataclass
class WriterOpener:
    """The opener of the writer for all sessions of a relay; keeps the writer between sessions."""

    config: SourceConfig
    directory: RelayDirectory
    needed: Callable[[], Location | None]
    """The oldest location that a task needs."""
    last_known: Callable[[], str]
    """The sub-directory in the last report of this source's relay."""
    writer: RelayWriter | None = None
    backlog: int = 0
    """Bytes that the upstream had more than the writer when the writer was last opened."""
    _torn: BinlogFile | None = None
    """A file that the upstream cannot read to its end."""
    _lacking: tuple[float, float] = field(default=(-inf, -inf), repr=False)
    """The times at which the server first and last lacked transactions that are held."""

    def open(self, connection: Connection, info: ServerInfo, locate: Locate) -> RelayWriter:
        """Open the writer for this server.

        Raises BinlogPurged, UpstreamLogDiffers, UpstreamSwitched, UpstreamLacks, and the errors of `locate`, recovery
        and the disk.
        """
        start.refuse_unsupported(self.config, info.flavour)
        binlogs = list_binlogs(connection)
        if self.writer is None:
            self.writer = held_writer(self.directory, info.flavour)
            self.directory.repair_index()
        if self.writer is None:
            self.writer = self._first(info, binlogs, locate)
        elif self.writer.sub_dir.server_uuid != info.server_uuid:
            if not self.config.enable_gtid:
                raise UpstreamSwitched(self.writer.sub_dir.server_uuid, info.server_uuid)
            self.writer = self._follow(self.writer, connection, info, binlogs, locate)
        else:
            self._continue(self.writer, connection, info, binlogs)
        start.check_available(self.writer.file, self.writer.size, binlogs)
        number = self.writer.file.number
        sizes = [binlog.size for binlog in binlogs if BinlogFile.parse(binlog.name).number >= number]
        self.backlog = sum(sizes) - self.writer.size
        return self.writer

    def _first(self, info: ServerInfo, binlogs: Sequence[BinlogSize], locate: Locate) -> RelayWriter:
        needed = self.needed()
        first, suffix = start.first_start(self.config, info, needed, self.last_known())
        match first:
            case start.ByName(name):
                file = name
            case start.ByGtid(known):
                file = self._located(known, locate, needed, binlogs)
            case start.Latest():
                file = BinlogFile.parse(binlogs[-1].name)
            case other:
                assert_never(other)
        start.check_available(file, 0, binlogs)  # before creating a sub-directory for it
        sub_dir = self.directory.add(info.server_uuid, at_least=suffix)
        return RelayWriter(self.directory, sub_dir, info.flavour, file)

    @staticmethod
    def _located(known: GtidSet, locate: Locate, needed: Location | None, binlogs: Sequence[BinlogSize]) -> BinlogFile:
        """Locate the file to begin with. If the upstream has purged the configured beginning, but all needs are in
        files that it has, begin with the oldest need."""
        try:
            return locate(known)
        except GtidsPurged as purged:
            if needed is None or all(binlog.name != needed.file for binlog in binlogs):
                raise
            log.warning("%s The relay log begins with %s, the oldest file that a task needs.", purged, needed.file)
            return BinlogFile.parse(needed.file)

    def _follow(
        self, held: RelayWriter, connection: Connection, info: ServerInfo, binlogs: Sequence[BinlogSize], locate: Locate
    ) -> RelayWriter:
        """Follow another server that has taken over, by GTID."""
        if not any(self.directory.files(sub_dir) for sub_dir in self.directory.sub_dirs()):
            first = self._first(info, binlogs, locate)  # no byte was received from the other server yet
            held.close()
            return first
        held.discard_open()
        ours = self._complete_set(held)
        self._check_has(ours, connection, info)
        file = locate(ours)
        held.close()
        sub_dir = self.directory.add(info.server_uuid)
        return RelayWriter(self.directory, sub_dir, info.flavour, file, carried=ours)

    def give_up(self, needed: Location | None) -> bool:
        """Remove a log of which no part is needed: everything before this location. Return False if it is needed.

        Raises RelayDiskFailed.
        """
        held = self.writer
        if needed is None or held is None or needed.sort_key <= held.location().sort_key:
            return False
        self.writer = None
        held.close(save=False)
        with disk_errors(self.directory.root):
            for sub_dir in self.directory.sub_dirs():
                shutil.rmtree(self.directory.folder(sub_dir))
        log.warning(
            "the task needs the log from %s on, and its relay log ended at %s: it begins again", needed, held.file
        )
        return True

    def leave_file(self) -> None:
        """Continue with the file after the writer's, which the upstream cannot read to its end."""
        if self.writer is not None:
            self._torn = self.writer.file

    def _continue(
        self, writer: RelayWriter, connection: Connection, info: ServerInfo, binlogs: Sequence[BinlogSize]
    ) -> None:
        sizes = {binlog.name: binlog.size for binlog in binlogs}
        following = writer.file.next()
        if self._torn == writer.file and not start.is_left_behind(following, binlogs):
            if str(following) not in sizes:
                raise StreamLost(f"the upstream has no file after {writer.file} yet")
            writer.discard_open()
            writer.rotate_to(following)
        elif sizes.get(str(writer.file), writer.size) < writer.size:
            writer.discard_open()  # the upstream crashed and has also truncated the file
        if self.config.enable_gtid:
            self._check_has(self._complete_set(writer), connection, info)
        self._torn = None

    @staticmethod
    def _complete_set(writer: RelayWriter) -> GtidSet:
        return GtidSet.parse(writer.location(exact=True).gtid_set, writer.flavour)

    def _check_has(self, ours: GtidSet, connection: Connection, info: ServerInfo) -> None:
        executed = GtidSet.parse(current_location(connection).gtid_set, info.flavour)
        missing = ours.minus(executed)
        if not missing:
            self._lacking = (-inf, -inf)
            return
        now = time.monotonic()
        since, last = self._lacking
        since = since if now - last < FORGOTTEN_SECONDS else now
        self._lacking = (since, now)
        raise UpstreamLacks(str(missing), info.server_uuid, final=now - since > LAG_ALLOWED_SECONDS)


# The held log


def held_writer(directory: RelayDirectory, flavour: Flavour) -> RelayWriter | None:
    """Return the writer that continues the newest file; None without one.

    Truncates the newest file to a transaction boundary. Removes newer sub-directories, which a crash left empty.
    Raises the errors of `recover`.
    """
    sub_dirs = directory.sub_dirs()
    for index in range(len(sub_dirs) - 1, -1, -1):
        sub_dir = sub_dirs[index]
        recovered = recover(directory, sub_dir, flavour)
        if recovered is not None:
            carried = set_of(directory, sub_dirs[index - 1], flavour) if index else None
            return RelayWriter.resume(directory, sub_dir, flavour, recovered, carried)
        directory.remove_empty(sub_dir)
    return None


def set_of(directory: RelayDirectory, sub_dir: SubDir, flavour: Flavour) -> GtidSet:
    """Return the transactions that are complete in a finished sub-directory and in those before it.

    Its relay.meta was written when it was finished; if that is lost, the newest file has the transactions of this
    sub-directory, but maybe not all earlier ones. If all its files were removed, the result is empty: then later
    sub-directories need not continue it.
    """
    files = directory.files(sub_dir)
    if not files:
        return GtidSet.empty(flavour)
    meta = RelayMeta.read(directory.folder(sub_dir))
    finished = GtidSet.parse(meta.binlog_gtid, flavour) if meta is not None else GtidSet.empty(flavour)
    tail = last_boundary(str(files[-1].path), files[-1].size)
    return finished.union(GtidSet.parse(tail.gtid_set, flavour)) if tail is not None else finished
