"""Complete locations from the sort keys of the frontier and from the file names of a server.

A complete location also has the number of the relay sub-directory and the GTID set, without which a failover cannot be
followed. Both, and the base names of files, are read from the relay log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.binlog.open_places import OpenPlace
from airflow_provider_dm.engine.binlog.xa import PreparedXa
from airflow_provider_dm.engine.config.job import SourceSpec
from airflow_provider_dm.engine.downstream.subtask import Subtask
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, DmError
from airflow_provider_dm.engine.mysql.connection import Connection, server_info
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.sync.errors import EarlierLogMissing

log = logging.getLogger(__name__)

RELAY_SECONDS: Final = 20.0
"""How long to wait until a relay that was started at the same time has pulled the requested log."""
LOCATION_POLL_SECONDS: Final = 0.2


@dataclass(frozen=True)
class Cursor:
    """A location of a log, with the state that is needed to continue reading there."""

    place: Location
    prepared: tuple[PreparedXa, ...] = ()
    """The XA transactions that are prepared at `place`."""
    open_places: tuple[OpenPlace, ...] = ()
    """Later locations that are valid in the log of their own server only."""

    def __str__(self) -> str:
        return str(self.place)


def check_numbers(here: Location, reader: RelayReader, newest: int | None) -> None:
    """Check that the relay's newest sub-directory, `newest`, is not before that of `here`. Raises EarlierLogMissing."""
    if newest is not None and newest < here.suffix:
        raise EarlierLogMissing(
            f"the checkpoint {here} is in sub-directory {here.suffix}, but the newest one of {reader.root} is "
            f"{newest}: the relay log was created again, and the numbers do not identify the server.",
            "Remove the relay directory and start the relay with the same metadata DB (`meta-url`): it then "
            "begins at the location that the task needs, in a sub-directory with the right number.",
        )


def location_at(
    sort_key: str, known: Location, base_of: Callable[[int], str | None] = lambda _suffix: None
) -> Location:
    """Return the location of a sort key, with a GTID set only if it equals `known`.

    The base name of its file is `base_of(sub-directory number)`, or that of `known` if this is None.

    >>> str(location_at("000001.0000000003.00000000000000000120", Location("bin.000001", 4)))
    'bin.000003:120'
    """
    if sort_key == known.sort_key:
        return known
    suffix, number, position = map(int, sort_key.split("."))
    here = suffix == known.suffix
    base = None if here else base_of(suffix)
    file = BinlogFile(base or BinlogFile.parse(known.file).base, number)
    place = Location(str(file), position, suffix=suffix, server_uuid=known.server_uuid if here else "")
    return replace(place, created=known.created) if here and place.file == known.file else place


def with_gtid_set(
    lo: Location,
    subtask: Subtask,
    reader: RelayReader,
    *,
    by_gtid: bool = True,
    seconds: float = RELAY_SECONDS,
    elsewhere: Sequence[RelayReader] = (),
) -> Location:
    """Return `lo` with its GTID set, so that a later failover can be followed. Raises EarlierLogMissing.

    The set is computed from the log after the location noted in the target. At the task's start it is always read from
    the log, because the answer of a busy server may not match the position exactly. In the first sub-directory it may
    stay empty (a server without GTIDs, a relay that is behind); after a failover this would apply transactions twice.
    By position it may stay empty anywhere, if none was known before: such a log only continues with the same bytes.

    `seconds`: how long to wait for the relay. `elsewhere`: other readers that may have that log.
    """
    begins = subtask.start is not None and lo.sort_key == subtask.start.sort_key
    if lo.gtid_set and not begins:
        return lo
    deadline = time.monotonic() + seconds
    needed = by_gtid or (subtask.location is not None and subtask.location.gtid_set)
    while (found := _gtid_set_at(lo, subtask, (reader, *elsewhere), begins=begins)) is None:
        if not needed or (lo.suffix == 1 and not _begins_with_a_later_server(reader)):
            return lo
        if time.monotonic() > deadline:
            raise EarlierLogMissing(
                f"task {subtask.task}, source {subtask.source}: the set of transactions that are applied at {lo} is "
                f"unknown, because the relay log in {reader.root} does not contain the log before that location. "
                "Transactions that a new server's log repeats cannot be distinguished from new ones.",
                f"Let the relay pull that part of the log again, if the upstream still has it; else {MIGRATE_AGAIN}.",
            )
        time.sleep(LOCATION_POLL_SECONDS)
    return replace(lo, gtid_set=found)


def _begins_with_a_later_server(reader: RelayReader) -> bool:
    """Return True if the relay has the log of a later server, and no file of the first one."""
    return (reader.newest_suffix() or 1) > 1 and reader.base_of(1) is None


def _gtid_set_at(lo: Location, subtask: Subtask, readers: Iterable[RelayReader], *, begins: bool) -> str | None:
    """Return the GTID set of `lo`; None if no reader has the log for it (yet), or it cannot be read."""
    noted, start, gtid_set = subtask.location, subtask.start, None
    for reader in readers:
        try:
            if not begins and noted is not None and noted.gtid_set:
                gtid_set = reader.gtid_set_after(noted, lo)
            if gtid_set is None and (lo.suffix == 1 or (start is not None and start.suffix == lo.suffix)):
                gtid_set = reader.own_gtid_set_at(lo)
        except (DmError, FileNotFoundError) as error:  # a defect after `lo` is reported when it is read
            log.info("the GTID set of %s is not known yet: %s", lo, error)
        if gtid_set is not None:
            return gtid_set
    return None


def in_relay(location: Location, connection: Connection, source: SourceSpec, *, otherwise: int = 1) -> Location:
    """Return a location of the upstream with the number of the relay sub-directory that has, or will have, its log.

    Waits up to RELAY_SECONDS for a relay that has just been started. `otherwise`: the number if it has no log then.
    """
    reader, server_uuid = RelayReader(Path(source.relay_dir)), server_info(connection).server_uuid
    deadline = time.monotonic() + RELAY_SECONDS
    while (suffix := reader.suffix_now(server_uuid)) is None and time.monotonic() < deadline:
        time.sleep(LOCATION_POLL_SECONDS)
    return replace(location, suffix=suffix or otherwise)
