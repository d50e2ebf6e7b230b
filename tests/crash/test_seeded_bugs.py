"""The enumeration finds bugs: each of these, planted in the code that writes or recovers, fails it."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay import directory, durable, meta, recovery, writer
from airflow_provider_dm.engine.relay.recovery import boundary_after
from tests.crash.disk import power_cuts
from tests.crash.life import recorded, survive
from tests.crash.test_crash_states import lived_on

pytestmark = pytest.mark.computes

Patch = pytest.MonkeyPatch


def no_fsync_of_folders(patch: Patch) -> None:
    for module in (durable, directory, recovery):
        patch.setattr(module, "sync_folder", lambda _folder: None)


def rename_before_fsync(patch: Patch) -> None:
    def write(path: Path, content: bytes) -> None:
        fresh = path.with_name(f".{path.name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
        durable.write_all(descriptor, content, 0)
        fresh.rename(path)
        durable.sync_folder(path.parent)
        os.fsync(descriptor)
        os.close(descriptor)

    for module in (directory, meta, writer):
        patch.setattr(module, "write_durably", write)


def meta_before_the_data(patch: Patch) -> None:
    def save(self: writer.RelayWriter) -> Location:
        here = self.location()
        meta.RelayMeta(here.file, boundary_after(self.path, self.begun), here.gtid_set).write(self.folder)
        self._syncer.sync_now(self.path)
        return here

    patch.setattr(writer.RelayWriter, "save", save)


def no_fsync_of_data(patch: Patch) -> None:
    patch.setattr(writer._Syncer, "sync_now", lambda _self, _path: None)


def a_successor_before_the_data(patch: Patch) -> None:
    """The next file appears before the end of the previous one is durable."""
    real = writer.RelayWriter.rotate_to

    def rotate_to(self: writer.RelayWriter, file: object) -> None:
        self._dirty = False
        real(self, file)  # type: ignore[arg-type]

    patch.setattr(writer.RelayWriter, "rotate_to", rotate_to)


def what_a_dead_writer_left_counts_as_saved(patch: Patch) -> None:
    real = writer.RelayWriter.resume

    def resume(*arguments: Any) -> writer.RelayWriter:
        resumed = real(*arguments)
        resumed._dirty = False
        return resumed

    patch.setattr(writer.RelayWriter, "resume", resume)


def a_failover_before_the_data(patch: Patch) -> None:
    """The new sub-directory begins where the old one ends, and that end is not on the disk."""

    def close(self: writer.RelayWriter) -> None:
        self._syncer.end()
        os.close(self._descriptor)
        self._descriptor = -1

    patch.setattr(writer.RelayWriter, "close", close)


def recovery_without_checksums(patch: Patch) -> None:
    patch.setattr(recovery, "_has_right_checksum", lambda *_arguments: True)


WRITING: list[Callable[[Patch], None]] = [
    no_fsync_of_folders,
    rename_before_fsync,
    meta_before_the_data,
    no_fsync_of_data,
    a_successor_before_the_data,
    what_a_dead_writer_left_counts_as_saved,
    a_failover_before_the_data,
]


@pytest.mark.parametrize("bug", [*WRITING, recovery_without_checksums])
def test_a_planted_bug_is_found(memory: Path, bug: Callable[[Patch], None]) -> None:
    (memory / "recorded").mkdir()
    chance = random.Random(1)
    with pytest.MonkeyPatch.context() as patch:
        bug(patch)
        story = recorded(memory / "recorded", Flavour.MARIADB, seed=1)
    states = list(power_cuts(story.operations, chance, each=8))
    chance.shuffle(states)  # most bugs show in few moments, which lie together and late
    with pytest.MonkeyPatch.context() as patch:
        if bug not in WRITING:
            bug(patch)
        assert next(lived_on(memory, states, lambda top, state: survive(top, story, state, chance)))
