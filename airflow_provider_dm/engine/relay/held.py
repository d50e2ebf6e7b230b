"""What a relay directory holds, as a writer that goes on with it."""

from __future__ import annotations

from airflow_provider_dm.engine.binlog.boundary import last_boundary
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.relay.directory import RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.meta import RelayMeta
from airflow_provider_dm.engine.relay.recovery import recover
from airflow_provider_dm.engine.relay.writer import RelayWriter


def held_writer(directory: RelayDirectory, flavour: Flavour) -> RelayWriter | None:
    """The writer that goes on behind the newest file, None where there is none.

    Cuts that file back to a transaction boundary. Newer sub-directories, which a death left empty, are removed.
    Raises what `recover` raises.
    """
    sub_dirs = directory.sub_dirs()
    for index in range(len(sub_dirs) - 1, -1, -1):
        sub_dir = sub_dirs[index]
        found = recover(directory, sub_dir, flavour)
        if found is not None:
            carried = set_of(directory, sub_dirs[index - 1], flavour) if index else None
            return RelayWriter.resume(directory, sub_dir, flavour, found, carried)
        directory.remove_empty(sub_dir)
    return None


def set_of(directory: RelayDirectory, sub_dir: SubDir, flavour: Flavour) -> GtidSet:
    """Every transaction that is complete in a finished sub-directory and in those before it.

    Its relay.meta was written when it was finished; where that is lost the newest file says what is in it, of what was
    before maybe less.
    """
    meta = RelayMeta.read(directory.folder(sub_dir))
    said = GtidSet.parse(meta.binlog_gtid, flavour) if meta is not None else GtidSet.empty(flavour)
    files = directory.files(sub_dir)
    tail = last_boundary(str(files[-1].path), files[-1].size) if files else None
    return said.union(GtidSet.parse(tail.gtid_set, flavour)) if tail is not None else said
