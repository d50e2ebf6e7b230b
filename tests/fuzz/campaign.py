"""Many cases in a few processes, and what was found.

A process that dies is a finding, and the next one continues after it.
"""

import json
import os
import signal
import tempfile
import threading
from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.binlog.kernels import build as kernels
from tests.fuzz.worker import MOST_FAILURES, SAID, STATE, Failure, Work
from tests.nursery import Nursery

ROOT: Final = Path(__file__).parents[2]
SEED: Final = 20_260_101
"""The default input of a run."""
WORKERS: Final = 2


@dataclass
class Report:
    """Findings of a campaign."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{count:8} {what}" for what, count in sorted(self.counts.items()) if count]
        for failure in self.failures:
            lines += ["", f"again: python -m tests.fuzz --case {failure.case}", failure.described, failure.problem]
            if failure.saved:
                lines.append(f"saved: {failure.saved}")
        return "\n".join(lines)


def run(
    cases: int,
    *,
    seed: int = SEED,
    workers: int = WORKERS,
    save: Path | None = None,
    bug: str = "",
    checked: bool = False,
) -> Report:
    """`cases` mutated logs, the cases SEED:0 to SEED:cases-1.

    `checked`: with kernels that look whether an index is within its array, and raise IndexError; the usual ones would
    read what lies after it.
    """
    report, lock = Report(), threading.Lock()
    folder = save or Path(tempfile.mkdtemp(prefix="dm-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    shares = [(cases - index + workers - 1) // workers for index in range(workers)]
    wanted = [Work(seed, index, workers, share, str(folder), "", bug) for index, share in enumerate(shares)]
    with closing(Nursery(("tests.fuzz.worker",), environment_of(checked=checked))) as nursery:
        threads = [threading.Thread(target=_follow, args=(work, nursery, report, lock)) for work in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if not report.failures and save is None:
        folder.rmdir()
    return report


def environment_of(*, checked: bool) -> dict[str, str]:
    """Return what a process of ours runs in."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "docker"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    if checked:  # the machine code is another one, and numba's own cache would not know
        environment |= {"NUMBA_BOUNDSCHECK": "1", kernels.DIRECTORY: str(kernels.directory().parent / "checked")}
    return environment


def _follow(work: Work, nursery: Nursery, report: Report, lock: threading.Lock) -> None:
    """One worker and, where it dies, those that continue after it."""
    while work.count > 0:
        with tempfile.NamedTemporaryFile() as state:
            state.write(STATE.pack(-1))
            state.flush()
            counts, failures, ended = _run(replace(work, state=state.name), nursery)
            at: int = STATE.unpack(Path(state.name).read_bytes())[0]
        with lock:
            report.counts += counts
            report.failures += failures
            if ended is not None:
                problem = f"the process ended: {ended}"
                report.counts["failures"] += 1
                report.failures.append(Failure(f"{work.seed}:{at}", "", problem))
            if ended is None or at < 0 or len(report.failures) >= MOST_FAILURES:
                return
        done = (at - work.first) // work.step + 1
        work = replace(work, first=at + work.step, count=work.count - done)


def _run(work: Work, nursery: Nursery) -> tuple[Counter[str], list[Failure], str | None]:
    """(counts, failures, how it ended if not well) of one process."""
    with tempfile.TemporaryFile("w+") as output:
        arguments, environ = [json.dumps(asdict(work))], nursery.environ or os.environ
        code = nursery.start("tests.fuzz.worker:main", arguments, environ, output.fileno()).wait()
        output.seek(0)
        lines = output.read().splitlines()
    counts: Counter[str] = Counter()
    failures = []
    for message in (json.loads(line) for line in lines if line.startswith(SAID)):
        counts.update(message.get("counts", {}))
        failures += [Failure(**message["failure"])] if "failure" in message else []
    if code == 0:
        return counts, failures, None
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    others = "\n".join(line for line in lines if not line.startswith(SAID))
    return counts, failures, f"{how}\n{others[-3000:]}".strip()
