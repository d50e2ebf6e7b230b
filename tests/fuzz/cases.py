"""One case: a seed, damage, a way of reading; and what is wrong with what came of it.

A case is made from two numbers and nothing else, so `SEED:NUMBER` is all that has to be printed to have it again.
"""

import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from airflow_provider_dm.engine.binlog.kernels import build as kernels
from airflow_provider_dm.engine.schema.model import Table
from tests.fuzz import anatomy, mutate
from tests.fuzz.corpus import TABLES, Seed, follower, seeds
from tests.fuzz.fields import Tables
from tests.fuzz.judge import judge
from tests.fuzz.limits import TooSlow, cpu_bound
from tests.fuzz.subject import ENGINE, Outcome, Reading, Subject, follow, log_files, recover
from tests.fuzz.writer import Log


def by_name(tables: Sequence[Table]) -> Tables:
    """Return tables by the names that logs have for them."""
    return {(table.name.schema.encode(), table.name.table.encode()): table for table in tables}


BY_NAME: Final = by_name(TABLES)


@dataclass(frozen=True)
class Case:
    """A damaged log and how it is read. `files`: the damaged one, and the one after it if it is finished."""

    name: str
    seed: Seed
    damage: tuple[str, ...]
    files: tuple[bytes, ...]
    reading: Reading
    start: int = 4
    tables: Sequence[Table] = TABLES

    def __str__(self) -> str:
        kind = "finished" if len(self.files) > 1 else "growing"
        return f"{self.name} ({self.seed.name}, {' + '.join(self.damage)}, {kind}, from {self.start}, {self.reading})"


@dataclass(frozen=True)
class Verdict:
    """`problem` None: the promise is kept. `kind`: what came out, for the statistics."""

    kind: str
    problem: str | None = None
    new_rows: bool = False
    """Rows came out that the seed does not have, and they are what the damaged bytes say."""


def make_case(seed: int, number: int, corpus: Sequence[Seed] | None = None, tables: Sequence[Table] = TABLES) -> Case:
    """The case SEED:NUMBER, of our own corpus or of another one and its tables."""
    dice = Random(f"{seed}:{number}")
    its = dice.choice(seeds() if corpus is None else corpus)
    damage, data = _damaged(dice, its, BY_NAME if tables is TABLES else by_name(tables))
    files = (data, follower(its.flavour).data) if dice.random() < 0.75 else (data,)
    reading = Reading(dice.choice((1, 300, 1 << 20)), dice.choice((1, 500, 1 << 20)), dice.random() < 0.3)
    start = dice.choice(its.boundaries) if dice.random() < 0.15 else 4
    return Case(f"{seed}:{number}", its, damage, files, reading, start, tables)


def _damaged(dice: Random, its: Seed, tables: Tables) -> tuple[tuple[str, ...], bytes]:
    """Raw or repaired; now and then both."""
    names, whole = [], its.data
    raw = dice.random() < 0.4
    data = whole
    for _ in range(20):  # until something has changed
        if raw:
            spans = its.spans
            for _ in range(dice.choice((1, 1, 1, 2))):
                with_bytes = dice.choice(mutate.WITH_BYTES)
                names.append(with_bytes.__name__)
                data = with_bytes(dice, data, spans)
                spans = tuple(span for span in spans if span.end <= len(data))
            if dice.random() < 0.2:
                names.append("repaired")
                data = mutate.repaired(data)
        else:
            events = list(its.log.events)
            for _ in range(dice.choice((1, 1, 1, 2, 3))):
                is_packed = any(event.code in mutate.PACKED for event in events)
                with_events = mutate.inside if is_packed and dice.random() < 0.3 else dice.choice(mutate.WITH_EVENTS)
                names.append(with_events.__name__)
                events = with_events(dice, events, tables)
            data = Log(tuple(events), its.log.checksum).data()
        if data != whole:
            break
    return tuple(names), data


def check(case: Case, folder: Path, subject: Subject = ENGINE, *, timed: bool = True) -> Verdict:
    """Run a case. Never raises. `timed`: within its seconds of CPU time."""
    try:
        with cpu_bound() if timed else nullcontext(lambda: None) as clock:
            files = log_files(folder, case.files)
            outcome = follow(files, case.tables, case.reading, subject, case.start, clock)
            recover(files, clock)
    except TooSlow as slow:
        return Verdict("too slow", f"{slow}\n{_innermost(slow)}")
    except AssertionError as wrong:
        return Verdict("disagreement", str(wrong))
    except BaseException as crash:  # any error is a finding
        if isinstance(crash, KeyboardInterrupt):
            raise
        return Verdict("crash", "".join(traceback.format_exception(crash)[-12:]))
    problem = judge(case.files, outcome, case.tables, case.start)
    return Verdict(_kind(outcome), problem, not case.seed.rows.issuperset(outcome.rows))


def _innermost(error: BaseException) -> str:
    return "".join(traceback.format_tb(error.__traceback__)[-3:])


def _kind(outcome: Outcome) -> str:
    rows = "rows" if outcome.rows else "no rows"
    return f"{rows}, {type(outcome.error).__name__}" if outcome.error else f"{rows}, to the end"


def must_be_detected(case: Case) -> bool:
    """Return True if only a DmError is right: the log is finished, and one of its events is torn or not what its
    checksum says."""
    return len(case.files) > 1 and anatomy.first_damage(case.files[0], case.start) is not None


def intact_cases() -> Iterator[Case]:
    """Every seed, undamaged."""
    for its in seeds():
        yield Case("intact", its, (), (its.data, follower(its.flavour).data), Reading())


def warm_up() -> None:
    """Modules, compiled code and caches are there afterwards: neither time nor memory of a case goes into them."""
    kernels.warm()
    with tempfile.TemporaryDirectory() as folder:
        for case in intact_cases():
            verdict = check(case, Path(folder), timed=False)
            if verdict.problem is not None or verdict.kind != "rows, to the end":
                raise AssertionError(f"an undamaged log: {case}\n{verdict}")
