"""What a relay directory holds, as a writer that goes on with it.

A log that was given up, to begin anew with a later file of the same server (`opening`), leaves an empty sub-directory
whose relay.meta names that file, at its start. So whenever the relay dies, its next start decides the same.
"""

from __future__ import annotations

from airflow_provider_dm.engine.binlog.boundary import last_boundary
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile
from airflow_provider_dm.engine.relay.directory import RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.meta import RelayMeta
from airflow_provider_dm.engine.relay.recovery import recover
from airflow_provider_dm.engine.relay.writer import RelayWriter


def held_writer(directory: RelayDirectory, flavour: Flavour) -> RelayWriter | None:
    """Return the writer that goes on behind the newest file, or begins the one that was announced; None without any.

    Cuts that file back to a transaction boundary. Newer sub-directories, which a crash left empty, are removed.
    Raises what `recover` raises.
    """
    sub_dirs = directory.sub_dirs()
    for index in range(len(sub_dirs) - 1, -1, -1):
        sub_dir = sub_dirs[index]
        found = recover(directory, sub_dir, flavour)
        if found is not None:
            carried = set_of(directory, sub_dirs[index - 1], flavour) if index else None
            return RelayWriter.resume(directory, sub_dir, flavour, found, carried)
        file = _announced(directory, sub_dir)
        if file is not None:
            # Of the log that was given up it carries nothing on: what lies between is not missing, nobody needs it.
            return RelayWriter(directory, sub_dir, flavour, file)
        directory.remove_empty(sub_dir)
    return None


def announce(directory: RelayDirectory, sub_dir: SubDir, file: BinlogFile) -> None:
    """Write down, atomically and durably, that this sub-directory, once it is empty, begins with `file`.

    Raises RelayDiskFull or RelayDiskFailed.
    """
    RelayMeta(str(file), BINLOG_HEADER_SIZE).write(directory.folder(sub_dir))


def _announced(directory: RelayDirectory, sub_dir: SubDir) -> BinlogFile | None:
    """Return the file that was announced, if any.

    For a file that is there, relay.meta never gives its start: it is written behind a format description.
    """
    meta = RelayMeta.read(directory.folder(sub_dir))
    return BinlogFile.parse(meta.binlog_name) if meta is not None and meta.binlog_pos == BINLOG_HEADER_SIZE else None


def set_of(directory: RelayDirectory, sub_dir: SubDir, flavour: Flavour) -> GtidSet:
    """Return every transaction that is complete in a finished sub-directory and in those before it.

    Its relay.meta was written when it was finished; where that is lost the newest file says what is in it, of what was
    before maybe less. One whose files were all removed counts as gone: nothing that follows need go on behind it.
    """
    files = directory.files(sub_dir)
    if not files:
        return GtidSet.empty(flavour)
    meta = RelayMeta.read(directory.folder(sub_dir))
    said = GtidSet.parse(meta.binlog_gtid, flavour) if meta is not None else GtidSet.empty(flavour)
    tail = last_boundary(str(files[-1].path), files[-1].size)
    return said.union(GtidSet.parse(tail.gtid_set, flavour)) if tail is not None else said
