"""The longer search: libFuzzer, through atheris, keeps every log that reaches new code, and continues from there.

An input is one byte of options (how the log is read) and the file. `mutated` damages events and writes them again, so
that most inputs are logs whose sizes and checksums are right; libFuzzer's own mutations get the rest. What is asked of
an input is what `cases.check` asks of a case. The kernels are machine code, which guides nothing, and run all the same.

atheris is not among this project's dependencies: `pip install atheris` (Linux, Python 3.11 to 3.13). Without it the
command says so and searches blindly for as long.
"""

from __future__ import annotations

import importlib.util
import secrets
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.fuzz.cases import Case, Verdict

MISSING: Final = (
    "atheris is not installed (`pip install atheris`), so this search is not guided by coverage: "
    "cases from fresh seeds for {seconds} s instead."
)
_LARGEST: Final = 16 << 10
"""Bytes of an input: our logs are small, and larger ones are only slower."""
_BLIND: Final = 2000
_MEMORY: Final = 1 << 30
_ENGINE: Final = "airflow_provider_dm.engine"
_MACHINE_CODE: Final = f"{_ENGINE}.binlog.kernels"


def run(seconds: int, corpus: Path | None, save: Path | None, workers: int) -> int:
    """Search for so many seconds; the exit code is 1 if something was found. `corpus` is kept and grows."""
    if importlib.util.find_spec("atheris") is None:
        print(MISSING.format(seconds=seconds), file=sys.stderr)
        return _blindly(seconds, save, workers)
    from airflow_provider_dm.engine.binlog.kernels import build
    from tests.fuzz import campaign

    build.warm()
    corpus = corpus or Path(tempfile.mkdtemp(prefix="dm-fuzz-corpus-"))
    found = save or Path(tempfile.mkdtemp(prefix="dm-fuzz-"))
    _plant(corpus)
    found.mkdir(parents=True, exist_ok=True)
    before = len(list(corpus.iterdir()))
    arguments = [
        *(f"-max_total_time={seconds}", f"-max_len={_LARGEST}", f"-artifact_prefix={found}/", "-timeout=60"),
        *("-rss_limit_mb=0", "-use_value_profile=1", "-print_final_stats=1", str(corpus)),
    ]
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.guided", *arguments, f"-seed={secrets.randbits(31)}"],
            env=campaign.environment_of(checked=False),
        )
        for _ in range(workers)
    ]
    codes = [child.wait() for child in children]
    artifacts = sorted(found.iterdir())
    print(f"{len(list(corpus.iterdir()))} logs in {corpus}, {before} at the beginning")
    for artifact in artifacts:
        print(f"again: python -m tests.fuzz --input {artifact}")
    return 1 if artifacts or any(codes) else 0


def _blindly(seconds: int, save: Path | None, workers: int) -> int:
    from tests.fuzz import campaign

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seed = secrets.randbelow(1 << 32)
        report = campaign.run(_BLIND, seed=seed, workers=workers, save=save, checked=seed % 2 == 0)
        print(f"seed {seed}: {report.counts['cases']} cases, {len(report.failures)} failures", flush=True)
        if report.failures:
            print(report)
            return 1
    return 0


def _plant(corpus: Path) -> None:
    """The seeds, where there is no corpus yet."""
    from tests.fuzz.corpus import seeds

    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        path = corpus / f"seed-{seed.name.replace('/', '-')}"
        if not path.exists():
            path.write_bytes(bytes([number % 16]) + seed.data)


# An input


def case_of(data: bytes) -> Case:
    """Return the case that an input encodes."""
    from tests.fuzz.cases import Case
    from tests.fuzz.corpus import follower, seeds
    from tests.fuzz.subject import Reading

    options, log = data[0] if data else 0, data[1:]
    reading = Reading(
        range_bytes=300 if options & 1 else 1 << 20, max_bytes=1 if options & 2 else 1 << 20, carried=bool(options & 4)
    )
    flavour = "mariadb" if b"mariadb" in log[:80].lower() else "mysql"
    files = (log, follower(flavour).data) if options & 8 else (log,)
    return Case("an input", seeds()[0], (), files, reading)


def check_input(data: bytes, folder: Path) -> tuple[Case, Verdict]:
    """Read it, and judge."""
    from tests.fuzz.cases import check

    case = case_of(data)
    return case, check(case, folder)


def mutated(data: bytes, seed: int, blind: Any) -> bytes:
    """Another input. `blind`: libFuzzer's own mutation, (bytes, most bytes) -> bytes."""
    from tests.fuzz import mutate
    from tests.fuzz.cases import BY_NAME

    dice = Random(seed)
    if len(data) < 30 or dice.random() < 0.15:
        return bytes(blind(data, _LARGEST))
    options, log = data[0], data[1:]
    if dice.random() < 0.1:
        options = dice.randrange(16)
    checksum, events = events_of(log)
    if not events or dice.random() < 0.1:
        raw = dice.choice(mutate.WITH_BYTES)(dice, log, spans_of(log))
        return bytes([options]) + (mutate.repaired(raw) if dice.random() < 0.7 else raw)
    for _ in range(dice.choice((1, 1, 2, 4))):
        if dice.random() < 0.3:
            index = dice.randrange(len(events))
            events[index] = events[index]._replace(body=bytes(blind(events[index].body, _LARGEST)))
        else:
            events = dice.choice((*mutate.WITH_EVENTS, mutate.inside))(dice, events, BY_NAME)
    return bytes([options]) + _file(events, checksum)


def crossed(one: bytes, other: bytes, seed: int) -> bytes:
    """The beginning of one input's events and the end of another's."""
    dice = Random(seed)
    checksum, first = events_of(one[1:])
    _, second = events_of(other[1:])
    if not first or not second:
        return one
    cut = dice.randrange(1, len(first) + 1)
    return one[:1] + _file([*first[:cut], *second[dice.randrange(len(second)) :]], checksum)


def _file(events: list[Any], checksum: bool) -> bytes:
    from tests.fuzz.writer import Log

    return Log(tuple(events), checksum).data()


def spans_of(log: bytes) -> list[Any]:
    """The events that can be walked, in a file that is maybe none."""
    from tests.fuzz import anatomy

    spans: list[Any] = []
    try:
        trailer = anatomy.format_of(log).trailer
    except anatomy.Malformed:
        trailer = 0
    with suppress(anatomy.Malformed):
        spans.extend(anatomy.split(log, trailer))  # those before the first that cannot be
    return spans


def events_of(log: bytes) -> tuple[bool, list[Any]]:
    """(whether the file has checksums, its events); no events where it is no log."""
    from tests.fuzz import anatomy, codes
    from tests.fuzz.writer import Event

    try:
        trailer = anatomy.format_of(log).trailer
    except anatomy.Malformed:
        return False, []
    found = []
    for span in spans_of(log):
        end = span.end - (4 if span.code == codes.FORMAT else trailer)
        stamp = int.from_bytes(log[span.position : span.position + 4], "little")
        found.append(Event(span.code, log[span.position + 19 : end], span.flags, stamp))
    return trailer == 4, found


def _child() -> None:
    """The process that searches; ends with libFuzzer's exit code."""
    import logging

    import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

    logging.disable(logging.CRITICAL)
    with atheris.instrument_imports(include=[_ENGINE], exclude=[_MACHINE_CODE]):
        from tests.fuzz import cases, limits  # the engine comes with them

    folder = Path(tempfile.mkdtemp(prefix="dm-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    cases.warm_up()
    limits.bound_memory(_MEMORY)

    def one_input(data: bytes) -> None:
        case, verdict = check_input(data, folder)
        if verdict.problem is not None:
            raise AssertionError(f"{case}\n{verdict.kind}\n{verdict.problem}")

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        return mutated(data, seed, atheris.Mutate)[:most]

    def crossover(one: bytes, other: bytes, most: int, seed: int) -> bytes:
        return crossed(one, other, seed)[:most]

    atheris.Setup(sys.argv, one_input, custom_mutator=mutator, custom_crossover=crossover)
    atheris.Fuzz()


if __name__ == "__main__":
    _child()
