"""The life of a relay, made of the real code and of servers in memory; and what has to be true after any death.

A story is recorded once. Then `survive` starts a relay in every state that a crash may have left, lets it pull what is
missing, and compares the directory with the servers' files.
"""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.relay import start
from airflow_provider_dm.engine.relay.directory import INDEX, RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.directory_lock import sole_writer
from airflow_provider_dm.engine.relay.errors import StreamLost
from airflow_provider_dm.engine.relay.meta import META, RelayMeta
from airflow_provider_dm.engine.relay.open_writer import WriterOpener
from airflow_provider_dm.engine.relay.pull import Puller
from airflow_provider_dm.engine.relay.purge import BeforeFile, Inactive, PurgeRequest
from airflow_provider_dm.engine.relay.purge_files import purge, restore_hidden
from airflow_provider_dm.engine.relay.writer import RelayWriter
from tests.crash.disk import Operation, State
from tests.crash.recorder import Recorder
from tests.crash.upstream import Feed, LogFile, Upstream, servers

ROOT = "relay"
CONFIG = SourceConfig.model_validate(
    {"source_id": "crashing", "enable_gtid": True, "relay_binlog_name": "mysql-bin.000001"}
)
DIES_AT = ("mysql-bin.000003", 9000)
"""The first server is gone after this much: in the middle of its long transaction."""


@dataclass
class Story:
    """Record of a life, and the servers it was recorded with."""

    old: Upstream
    new: Upstream
    operations: list[Operation]


@contextmanager
def relay_of(root: Path, *, killed: bool = False) -> Iterator[WriterOpener]:
    """A relay's process, from its lock to its orderly end; or it is `killed`: nothing more is saved."""
    directory = RelayDirectory(root)
    directory.prepare()
    with sole_writer(root):
        restore_hidden(root)
        opening = WriterOpener(CONFIG, directory, lambda: None, lambda: "")
        try:
            yield opening
        finally:
            if opening.writer is not None and not killed:
                opening.writer.close()
            elif opening.writer is not None:
                opening.writer._syncer.end()
                os.close(opening.writer._descriptor)


def session(
    opening: WriterOpener,
    upstream: Upstream,
    chance: random.Random,
    until: tuple[str, int] | None = None,
    *,
    save_every: int = 0,
) -> RelayWriter:
    """One connection, until the server has sent all (or `until`) and is lost."""
    writer = opening.open(upstream.connection(), upstream.info, upstream.locate)
    position = start.resume_position(writer, by_gtid=True)
    feed = Feed(upstream.packets(str(writer.file), position, until), upstream.flavour, chance)
    ticks = 0

    def tick() -> bool:
        nonlocal ticks
        ticks += 1
        if save_every and ticks % save_every == 0:
            writer.save()
        return True

    try:
        Puller(feed, writer, cursor=position).run(tick)
    except StreamLost:
        return writer
    raise AssertionError("the feed ends with a lost stream")


def recorded(top: Path, flavour: Flavour, *, seed: int, checksum: bool = True) -> Story:
    """Pull, lose the connection, continue, be killed, start again, follow a failover, purge: all on the record."""
    chance = random.Random(seed)
    old, new = servers(flavour, checksum=checksum)
    recorder = Recorder(top)
    with recorder.recording():
        with relay_of(top / ROOT, killed=True) as opening:
            session(opening, old, chance, ("mysql-bin.000001", 3000), save_every=3)
            session(opening, old, chance, ("mysql-bin.000001", len(old.files[0].data)))
        with relay_of(top / ROOT) as opening:
            session(opening, old, chance, ("mysql-bin.000002", 5000))
        with relay_of(top / ROOT) as opening:
            session(opening, old, chance, DIES_AT)
            session(opening, new, chance, ("mysql-bin.000002", 8000))
        with relay_of(top / ROOT) as opening:
            session(opening, new, chance, save_every=5)
        purged(top / ROOT, BeforeFile("mysql-bin.000003", str(SubDir(old.info.server_uuid, 1))))
        purged(top / ROOT, Inactive())
    recorder.check()
    return Story(old, new, recorder.operations)


def purged(root: Path, request: PurgeRequest) -> None:
    """No task needs any file."""
    assert purge("crashing", root, lambda: (), request).files


# After a death


def survive(top: Path, story: Story, state: State, chance: random.Random) -> None:
    """Start a relay in what is left and let it live to the end. Raises AssertionError, or what the relay raises."""
    state.tree.write_to(top)
    root = top / ROOT
    directory = RelayDirectory(root)
    servers_by_uuid = {one.info.server_uuid: one for one in (story.old, story.new)}
    failed_over = any(sub_dir.server_uuid == story.new.info.server_uuid for sub_dir in directory.sub_dirs())
    check_hints(directory, servers_by_uuid)
    promised = state.promised if story.old.files[0].checksum else vouched(directory, state.promised)
    with relay_of(root) as opening:
        if not failed_over and chance.random() < 0.7:  # the first server may live a little longer, or not
            opening.open(story.old.connection(), story.old.info, story.old.locate)
            check_held(directory, servers_by_uuid)
            check_promised(directory, servers_by_uuid, promised)
            session(opening, story.old, chance, DIES_AT)
        opening.open(story.new.connection(), story.new.info, story.new.locate)
        check_held(directory, servers_by_uuid)
        check_promised(directory, servers_by_uuid, promised)
        writer = session(opening, story.new, chance)
        location = writer.location()
    check_held(directory, servers_by_uuid)
    everything = story.new.set_of(story.new.count)
    assert GtidSet.parse(location.gtid_set, story.new.flavour) == everything
    check_end(directory, story.new, everything)


def check_held(directory: RelayDirectory, servers_by_uuid: dict[str, Upstream]) -> None:
    """Files are the servers', from the first byte; finished ones are whole; nothing is missing between them."""
    known = None
    sub_dirs = directory.sub_dirs()
    for sub_dir in sub_dirs:
        upstream = servers_by_uuid[sub_dir.server_uuid]
        files = directory.files(sub_dir)
        for index, held in enumerate(files):
            data, theirs = held.path.read_bytes(), upstream.named(str(held.file))
            assert theirs.data.startswith(data), f"{held.path} has bytes that its server has not"
            assert index == len(files) - 1 or data == theirs.data, f"{held.path} is not whole, but has a successor"
            known = _goes_on(theirs, len(data), known, f"{held.path}")
    assert (directory.root / INDEX).read_text() == "".join(f"{one}\n" for one in sub_dirs) or not sub_dirs


def _goes_on(file: LogFile, size: int, known: int | None, where: str) -> int:
    """Return the number of transactions within the first `size` bytes of this file, not begun after a gap."""
    assert known is None or file.previous <= known, f"{where} begins after {file.previous}, before it are {known}"
    return max(known or 0, file.previous + file.transactions_in(size))


def check_end(directory: RelayDirectory, upstream: Upstream, everything: GtidSet) -> None:
    """Check that the newest sub-directory and relay.meta end where the server's log ends."""
    sub_dir = directory.latest()
    assert sub_dir is not None
    assert sub_dir.server_uuid == upstream.info.server_uuid
    last = upstream.files[-1]
    assert (directory.folder(sub_dir) / last.name).read_bytes() == last.data
    meta = RelayMeta.read(directory.folder(sub_dir))
    assert meta is not None, (directory.folder(sub_dir) / META).read_bytes()
    assert (meta.binlog_name, meta.binlog_pos) == (last.name, len(last.data))
    assert GtidSet.parse(meta.binlog_gtid, upstream.flavour) == everything


def check_hints(directory: RelayDirectory, servers_by_uuid: dict[str, Upstream]) -> None:
    """Check before any repair that what appears under its name is whole, and that relay.meta does not lie."""
    index = directory.root / INDEX
    if index.exists():
        *lines, end = index.read_text().split("\n")
        assert end == "", lines
        assert all(SubDir.parse(line) for line in lines), lines
    sub_dirs = directory.sub_dirs()
    for sub_dir in sub_dirs:
        upstream, folder = servers_by_uuid[sub_dir.server_uuid], directory.folder(sub_dir)
        for file in directory.files(sub_dir):
            assert file.size >= upstream.named(str(file.file)).head, f"{file.path} appeared before its head was in it"
        if (folder / META).exists():
            meta = RelayMeta.read(folder)
            assert meta is not None, (folder / META).read_bytes()
            vouched_for = folder / meta.binlog_name
            if sub_dir != sub_dirs[-1] and not vouched_for.exists():
                continue  # purged, or hidden to be
            theirs = upstream.named(meta.binlog_name).data[: meta.binlog_pos]
            ours = vouched_for.read_bytes()[: meta.binlog_pos]
            assert ours == theirs, f"relay.meta of {sub_dir} vouches for bytes that are not there: {meta}"


def check_promised(directory: RelayDirectory, servers_by_uuid: dict[str, Upstream], promised: dict[str, int]) -> None:
    """Check that no complete transaction that was on the disk for good is gone."""
    for path, size in promised.items():
        _root, *folder, name = path.split("/")
        if not folder or name.startswith(".") or name == META:
            continue
        theirs = servers_by_uuid[SubDir.parse(folder[0]).server_uuid].named(name)
        wanted = theirs.boundary(size)
        held = directory.root / folder[0] / name
        found = held.stat().st_size if held.exists() else 0
        assert found >= wanted, f"{path} had {wanted} bytes of whole transactions, {found} are left"


def vouched(directory: RelayDirectory, promised: dict[str, int]) -> dict[str, int]:
    """Return what has to stay: of a newest file without checksums only what relay.meta vouches for."""
    sub_dir = directory.latest()
    files = directory.files(sub_dir) if sub_dir is not None else ()
    if sub_dir is None or not files:
        return promised
    path = f"{directory.root.name}/{sub_dir}/{files[-1].file}"
    meta = RelayMeta.read(directory.folder(sub_dir))
    known = meta.binlog_pos if meta is not None and meta.binlog_name == str(files[-1].file) else 0
    return {**promised, path: min(promised.get(path, 0), known)}
