"""The code under test: planning a log to its end and decoding every planned range, in every way that a sync uses.

`follow` continues from plan to plan until nothing complete is left or a DmError ends it. Only DmErrors are caught: what
else the engine raises is a failure, and reaches the caller.

A way decodes one range. All ways get the same ranges and must have the same result: equal rows, and an error
each or none. If they end in errors, one may have returned more rows before, as rows are returned in pieces.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from airflow_provider_dm.engine.binlog.boundary import last_boundary
from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch, MalformedImage
from airflow_provider_dm.engine.binlog.images import canonical_cells
from airflow_provider_dm.engine.binlog.kernels import build as kernels
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.planned import ByteRange, DdlStatement, Epoch, EpochLimits, Planned, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.rows import RowChange, decode_range, malformed, split_range
from airflow_provider_dm.engine.binlog.splitting import AFTER, BEFORE, LAYOUT
from airflow_provider_dm.engine.errors import DmError, describe
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Table

Way: TypeAlias = Callable[[ByteRange, WantedTables], Iterable[RowChange]]
Plan: TypeAlias = "Callable[[Sequence[LogFile], Location, Reading], Planned]"

FIRST, SECOND = "mysql-bin.000001", "mysql-bin.000002"


def own_way(byte_range: ByteRange, wanted: WantedTables, compiled: bool = False) -> Iterable[RowChange]:
    """The engine's own way, plain or by kernels."""
    return decode_range(byte_range, wanted, compiled=compiled)


def _as_cells(byte_range: ByteRange, wanted: WantedTables, compiled: bool) -> Iterator[RowChange]:
    """Each row out of cells that lie side by side."""
    for batch in split_range(byte_range, wanted, compiled=compiled):
        rows: dict[tuple[int, int], Row] = {}
        for number in sorted(set(batch.changes[:, LAYOUT].tolist())):
            layout = batch.layouts[number].layout
            for side in (BEFORE, AFTER):
                chosen, images = batch.images(number, side)
                picked = range(len(layout.cells))
                try:
                    texts = canonical_cells(layout, batch.data, images, picked, compiled=compiled).rows()
                except MalformedImage as error:
                    raise malformed(
                        batch, byte_range.file, MalformedImage(int(chosen[error.index]), str(error))
                    ) from error
                rows |= {(which, side): texts[index] for index, which in enumerate(chosen.tolist())}
        for which, number in enumerate(batch.changes[:, LAYOUT].tolist()):
            yield RowChange(batch.layouts[number].table, rows.get((which, BEFORE)), rows.get((which, AFTER)))


@dataclass(frozen=True)
class Subject:
    """Ways to decode and to plan, which are tested.

    Ways are in groups: all of one group must have the same result. The first way and the first plan are judged.
    """

    ways: Mapping[str, Mapping[str, Way]]
    plans: Mapping[str, Plan] = field(default_factory=lambda: {"as it is": own_plan, "plain": _plain_plan})


def own_plan(files: Sequence[LogFile], lo: Location, reading: Reading) -> Planned:
    """The engine's own plan."""
    return plan_epoch(files, lo, EpochLimits(max_bytes=reading.max_bytes, range_bytes=reading.range_bytes))


def _plain_plan(files: Sequence[LogFile], lo: Location, reading: Reading) -> Planned:
    """The same without kernels."""
    before = os.environ.get(kernels.SWITCH)
    os.environ[kernels.SWITCH] = "off"
    try:
        return own_plan(files, lo, reading)
    finally:
        if before is None:
            del os.environ[kernels.SWITCH]
        else:
            os.environ[kernels.SWITCH] = before


def _plainly_and_by_kernels(way: Callable[..., Iterable[RowChange]]) -> Mapping[str, Way]:
    return {"plain": partial(way, compiled=False), "kernels": partial(way, compiled=True)}


ENGINE: Final = Subject({"rows": _plainly_and_by_kernels(own_way), "cells": _plainly_and_by_kernels(_as_cells)})


class Disagreement(AssertionError):
    """Two ways have different results."""


class Stuck(AssertionError):
    """A plan that does not get on."""


@dataclass(frozen=True)
class Reading:
    """Way to read a log: what a task's settings and the cluster decide."""

    range_bytes: int = 1 << 20
    max_bytes: int = 1 << 20
    carried: bool = False
    """The bytes travel with their range, as they do on a cluster."""


@dataclass(frozen=True)
class Decoded:
    """A planned range and what came out of it."""

    range: ByteRange
    rows: list[RowChange]
    error: DmError | None = None


@dataclass(frozen=True)
class Step:
    """One plan. `ddl`: it is a statement (with the rows of its transaction)."""

    lo: Location
    hi: Location
    ranges: list[Decoded]
    ddl: DdlStatement | None = None


@dataclass
class Outcome:
    """All of it: plans until `error`, or until nothing complete lies after `at`."""

    steps: list[Step] = field(default_factory=list)
    error: DmError | None = None
    at: Location | None = None

    @property
    def rows(self) -> list[RowChange]:
        return [row for step in self.steps for decoded in step.ranges for row in decoded.rows]


def log_files(folder: Path, files: Sequence[bytes]) -> list[LogFile]:
    """One or two files; the last one still grows."""
    found = []
    for name, data in zip((FIRST, SECOND), files, strict=False):
        path = folder / name
        path.write_bytes(data)
        found.append(LogFile(str(path), 1, name, len(data), False))
    found[-1] = replace(found[-1], last=True)
    return found


def recover(files: Sequence[LogFile], clock: Callable[[], None] = lambda: None) -> None:
    """Do what the relay does after a crash with the file that it wrote: look for its last boundary, whatever the
    events are. Raises what the engine should not."""
    clock()
    with suppress(DmError):
        tail = last_boundary(files[0].path, files[0].size)
        if tail is not None and not 4 <= tail.position <= files[0].size:
            raise Stuck(f"a last boundary at {tail.position} of {files[0].size} bytes")


def follow(
    files: Sequence[LogFile],
    tables: Sequence[Table],
    reading: Reading,
    subject: Subject = ENGINE,
    start: int = 4,
    clock: Callable[[], None] = lambda: None,
) -> Outcome:
    """Read a log to its end; `clock` is called before each plan and each way. Raises Disagreement, Stuck, and whatever
    the engine should not."""
    outcome, here = Outcome(), Location(FIRST, start)
    wanted = WantedTables.whole(tables)
    while True:
        planned = _planned(files, here, reading, subject.plans, clock)
        if isinstance(planned, DmError):
            outcome.error = planned
            return outcome
        if isinstance(planned, UpToDate):
            outcome.at = planned.at
            return outcome
        if isinstance(planned, DdlStatement):
            epoch, behind = planned.rows_epoch(), planned.end
            step = Step(here, behind, [], planned)
        else:
            epoch, behind = planned, planned.hi
            step = Step(here, behind, [])
        if (behind.file, behind.position) <= (here.file, here.position):
            raise Stuck(f"from {here} to {behind}")
        outcome.steps.append(step)
        outcome.error = _decode(epoch, wanted, reading, subject.ways, step.ranges, clock)
        if outcome.error is not None:
            return outcome
        here = behind


def _planned(
    files: Sequence[LogFile], here: Location, reading: Reading, plans: Mapping[str, Plan], clock: Callable[[], None]
) -> Planned | DmError:
    found: dict[str, Planned | DmError] = {}
    for name, plan in plans.items():
        clock()
        try:
            found[name] = plan(files, here, reading)
        except DmError as error:
            found[name] = _presentable(error)
    (first, judged), *others = found.items()
    for name, other in others:
        if _comparable(judged) != _comparable(other) and not _sees_damage_first(judged, other):
            raise Disagreement(f"plans, {first} and {name}, from {here}:\n{judged}\n{other}")
    return judged


def _sees_damage_first(one: Planned | DmError, other: Planned | DmError) -> bool:
    """A wrong checksum inside of the other's epoch may be seen while planning, or be left to who decodes the epoch."""
    if isinstance(other, ChecksumMismatch):
        one, other = other, one
    if not isinstance(one, ChecksumMismatch) or not isinstance(other, Epoch):
        return False
    file, position = one.at.split(":")
    return any(part.file == file and part.start <= int(position) < part.end for part in other.ranges)


def _comparable(planned: Planned | DmError) -> object:
    return (type(planned), str(planned)) if isinstance(planned, DmError) else planned


def _decode(
    epoch: Epoch | None,
    wanted: WantedTables,
    reading: Reading,
    groups: Mapping[str, Mapping[str, Way]],
    found: list[Decoded],
    clock: Callable[[], None],
) -> DmError | None:
    for byte_range in epoch.ranges if epoch else ():
        if reading.carried:
            data = Path(byte_range.path).read_bytes()[byte_range.start : byte_range.end]
            byte_range = replace(byte_range, path="/nowhere", data=data)
        judged: Decoded | None = None
        for group, ways in groups.items():
            (first, reference), *others = ((name, _taken(way, byte_range, wanted, clock)) for name, way in ways.items())
            judged = judged or reference
            for name, result in others:
                problem = _disagreement(reference, result)
                if problem:
                    place = f"{byte_range.file}:{byte_range.start}"
                    raise Disagreement(f"{group}: {first} and {name} do not tell the same at {place}: {problem}")
        assert judged is not None
        found.append(judged)
        if judged.error is not None:
            return judged.error
    return None


def _taken(way: Way, byte_range: ByteRange, wanted: WantedTables, clock: Callable[[], None]) -> Decoded:
    rows: list[RowChange] = []
    clock()
    try:
        rows.extend(way(byte_range, wanted))  # keeps what came before an error
    except DmError as error:
        return Decoded(byte_range, rows, _presentable(error))
    return Decoded(byte_range, rows)


def _disagreement(one: Decoded, other: Decoded) -> str | None:
    if (one.error is None) != (other.error is None):
        return f"{one.error or 'no error'} against {other.error or 'no error'}"
    if one.error is None and len(one.rows) != len(other.rows):
        return f"{len(one.rows)} rows against {len(other.rows)}"
    for number, (a, b) in enumerate(zip(one.rows, other.rows, strict=False)):
        if a != b:
            return f"row {number} is {a!r:.300} against {b!r:.300}"
    return None


def _presentable(error: DmError) -> DmError:
    """An error is for users: making its text must not fail, whatever bytes are in it."""
    if not str(error).startswith(f"[{error.code} ") or not describe(error)["Message"]:
        raise AssertionError(f"an error without its text: {type(error)}")
    return error
