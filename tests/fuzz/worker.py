"""One process of a campaign: runs its cases under limits and tells of each that breaks the promise.

It writes the number of the case at hand into a file before it begins with it, so that the parent process knows
which case killed it. What it says is JSON, one line for each failure, and one with counts at the end.
"""

import json
import logging
import struct
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from mmap import mmap
from pathlib import Path
from typing import Final

from tests.fuzz.bugs import BUGS
from tests.fuzz.cases import Case, Verdict, check, make_case, must_be_detected, warm_up
from tests.fuzz.limits import bound_memory
from tests.fuzz.subject import ENGINE

MOST_FAILURES: Final = 20
"""A worker that has found as many ends."""
SAID: Final = '{"'
"""How what it says begins, and nothing else that it prints."""
warm = warm_up
"""What is done once, by the process that workers are forked from."""
STATE: Final = struct.Struct("<q")


@dataclass(frozen=True)
class Failure:
    """A case that broke the promise. `saved`: the files that it was made of."""

    case: str
    described: str
    problem: str
    saved: str = ""


@dataclass(frozen=True)
class Work:
    """Cases that a worker runs: every `step`-th from `first` on. `bug`: a seeded one, by name."""

    seed: int
    first: int
    step: int
    count: int
    save: str
    state: str
    bug: str = ""

    @property
    def numbers(self) -> Iterable[int]:
        return range(self.first, self.first + self.step * self.count, self.step)


def work(wanted: Work) -> Counter[str]:
    """Run the cases; failures are printed. Bounds this process's memory."""
    logging.disable(logging.CRITICAL)  # a dropped transaction is a warning, and here it is everyday life
    subject = BUGS[wanted.bug] if wanted.bug else ENGINE
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder = Path(name)
        bound_memory()
        with open(wanted.state, "r+b") as file, mmap(file.fileno(), STATE.size) as state:
            for number in wanted.numbers:
                STATE.pack_into(state, 0, number)
                case = make_case(wanted.seed, number)
                verdict = check(case, folder, subject)
                count(counts, case, verdict)
                if verdict.problem is not None:
                    tell(case, verdict, wanted.save)
                    if counts["failures"] >= MOST_FAILURES:
                        break
    return counts


def count(counts: Counter[str], case: Case, verdict: Verdict) -> None:
    """Count what there was, by kind."""
    counts["cases"] += 1
    counts["failures"] += verdict.problem is not None
    counts[f"outcome: {verdict.kind}"] += 1
    if must_be_detected(case):
        counts["with damage that a checksum or size betrays"] += 1
    counts["with rows that no seed has"] += verdict.new_rows
    for damage in set(case.damage):
        counts[f"damage: {damage}"] += 1


def tell(case: Case, verdict: Verdict, save: str) -> None:
    folder = Path(save) / case.name.replace(":", "-")
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(case.files, 1):
        (folder / f"mysql-bin.{number:06d}").write_bytes(data)
    (folder / "case.txt").write_text(f"{case}\n\n{verdict.kind}\n{verdict.problem}\n")
    say({"failure": asdict(Failure(case.name, str(case), verdict.problem or "", str(folder)))})


def say(what: object) -> None:
    print(json.dumps(what), flush=True)


def main(arguments: Sequence[str]) -> int:
    """`arguments`: a Work as JSON."""
    counts = work(Work(**json.loads(arguments[0])))
    say({"counts": counts})
    return 0
