"""A binlog from a server to a file: the relay process beside the server's own client, with `--raw` and
`--read-from-remote-server`: mariadb-binlog, and for a MySQL source mysqlbinlog.

Both pull the same finished file of the same server over loopback, by COM_BINLOG_DUMP, annotate events included, each
as a process of its own into an empty folder.
- bulk: multi-row inserts, 42 rows in an event (large events; the server's sending is what takes the time).
- single_row: transactions of one row (small events; what is done for each event is what takes the time).
- mysql_bulk, mysql_single_row: the same of a MySQL, over TLS, as both sides ask for it where a server has it.

A run pulls the file again and again until it has pulled for 10 s. The clock of one pull runs from the file's appearance
in the folder to its last byte there, for both; so the start of a Python
process, its metadata DB and the login are not in the rate. `process_seconds` has the whole life of the process up to
the last byte.

What is not comparable:
- The relay has a backlog here, so it loads its compiled kernel (a second) before it begins; that is in
  `process_seconds` only.
- The relay verifies the CRC32 of every event before it writes it; mariadb-binlog verifies none in this mode.
- The relay forces the file to disk every second and at its end, keeps the GTID set, and publishes its status;
  mariadb-binlog leaves all to the page cache and knows nothing of transactions.
- mariadb-binlog stops at the end of the file; the relay would continue and is ended by the benchmark.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.engine.relay.spec import RelaySpec
from testbed import Flavour, Server, ServerSpec, running_servers
from testbed.debian_sid import tree
from testbed.mysql_apt import MYSQL
from tests.benchmarks import workload
from tests.benchmarks.harness import MEGA, Case, Run, Side, arguments, measure, note, publish
from tests.benchmarks.processes import cpu_of, peak_rss_of
from tests.benchmarks.workload import BinlogFile
from tests.jobs import META_VARIABLE, endpoint_spec, relay_spec, source_spec

FLAVOURS: Final[tuple[Flavour, ...]] = ("mariadb", "mysql")
BULK_ROWS: Final = 2_000_000
SINGLE_ROWS: Final = 1_000_000
PULLED_SECONDS: Final = 10.0
CASES: Final = ("bulk", "single_row", "mysql_bulk", "mysql_single_row")
LOOK_SECONDS: Final = 0.002
LIMIT_SECONDS: Final = 120.0


class PullFailed(RuntimeError):
    """A side ended, or took too long, before the file was complete."""


@dataclass
class Growth:
    """A file that another process writes, watched from nothing to `size` bytes."""

    pid: int
    ended: Callable[[], bool]
    size: int
    began: float
    first_at: float = 0.0
    first_cpu: float = 0.0
    peak_bytes: float = 0.0

    def watch(self, find: Callable[[], Path | None]) -> Run:
        """Raises PullFailed. `find`: the file, once it is there."""
        path = None
        while path is None:
            self._pause()
            path = find()
        self.first_at, self.first_cpu = time.perf_counter(), cpu_of(self.pid) or 0.0
        looks = 0
        while path.stat().st_size < self.size:
            self._pause()
            looks += 1
            if looks % 10 == 0:
                if self.ended() and path.stat().st_size < self.size:
                    raise PullFailed(f"{path.name} ends before its {self.size} bytes")
                self.peak_bytes = max(self.peak_bytes, peak_rss_of(self.pid))
        now, cpu = time.perf_counter(), cpu_of(self.pid) or 0.0
        extra = {"process_seconds": now - self.began, "process_cpu_seconds": cpu}
        self.peak_bytes = max(self.peak_bytes, peak_rss_of(self.pid))
        return Run(self.size / MEGA, now - self.first_at, cpu - self.first_cpu, self.peak_bytes, extra)

    def _pause(self) -> None:
        time.sleep(LOOK_SECONDS)
        if time.perf_counter() - self.began > LIMIT_SECONDS:
            raise PullFailed(f"the file was not complete after {LIMIT_SECONDS:.0f} s")


# The sides


def relay(server: Server, file: BinlogFile, folder: Path) -> Run:
    """The engine's relay, which begins with the file."""
    with empty(folder) as work:
        url = f"sqlite:///{work}/meta.db"
        migrate(url)
        environment = {**os.environ, META_VARIABLE: url}
        began = time.perf_counter()
        process = RelayProcess.start(relay_of(server, file, work / "relay"), environment, work / "relay.log")
        try:
            growth = Growth(process.pid, lambda: not process.alive(), file.size, began)
            return growth.watch(partial(_only, work / "relay", f"*.000001/{file.name}", growth))
        finally:
            process.kill()


def relay_of(server: Server, file: BinlogFile, directory: Path) -> RelaySpec:
    keys = {"relay-binlog-name": file.name}
    return relay_spec(source_spec("bench", endpoint_spec("bench", server), directory, **keys))


def own_client(server: Server, file: BinlogFile, folder: Path) -> Run:
    """The client tool of the same version as the server."""
    program = ["mariadb-binlog"] if server.flavour == "mariadb" else tree(MYSQL).command("mysqlbinlog")
    with empty(folder) as work:
        login = [f"--host={server.host}", f"--port={server.port}", f"--user={server.user}", "--protocol=tcp"]
        how = ["--raw", "--read-from-remote-server", f"--result-file={work}/"]
        began = time.perf_counter()
        process = subprocess.Popen([*program, "--no-defaults", *how, *login, file.name])
        try:
            growth = Growth(process.pid, lambda: _is_zombie(process.pid), file.size, began)
            return growth.watch(partial(_only, work, file.name, growth))
        finally:
            process.kill()
            process.wait()


def _only(folder: Path, pattern: str, growth: Growth) -> Path | None:
    """The file of that name, once it is there. Raises PullFailed when the process ended without making it."""
    over = growth.ended()
    found = next(folder.glob(pattern), None)
    if found is None and over:
        raise PullFailed(f"no {pattern} was written")
    return found


def _is_zombie(pid: int) -> bool:
    """Ended, but not waited for: its CPU time can still be read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def repeated(pull: Callable[[], Run], seconds: float) -> Run:
    """Pull until so many seconds have been measured."""
    runs = [pull()]
    while sum(run.seconds for run in runs) < seconds:
        runs.append(pull())
    amount, spent, cpu = (sum(getattr(run, key) for run in runs) for key in ("amount", "seconds", "cpu_seconds"))
    extra = {key: sum(run.extra[key] for run in runs) for key in runs[0].extra}
    return Run(amount, spent, cpu, max(run.peak_bytes for run in runs), {**extra, "pulls": len(runs)})


@contextmanager
def empty(folder: Path) -> Iterator[Path]:
    """A folder for one run. What was never forced to disk is dropped with it, and burdens no later run."""
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


# The run


def cases(server: Server, folder: Path, prefix: str, peer: str, options: argparse.Namespace) -> list[Case]:
    """Writes the files and names the comparisons."""
    logs = {"bulk": (workload.bulk_file, BULK_ROWS), "single_row": (workload.single_row_file, SINGLE_ROWS)}
    files = {}
    for name, (make, rows) in logs.items():
        if f"{prefix}{name}" in options.cases:
            note(f"{prefix}{name}: writing {int(rows * options.size)} rows")
            files[f"{prefix}{name}"] = make(server, int(rows * options.size))

    def side(name: str, pull: Callable[[Server, BinlogFile, Path], Run], file: BinlogFile) -> Side:
        return Side(name, partial(repeated, partial(pull, server, file, folder / "run"), PULLED_SECONDS * options.size))

    return [
        Case(name, "MB", side("relay", relay, file), side(f"{peer} --raw", own_client, file))
        for name, file in files.items()
    ]


def main() -> None:
    options = arguments(__doc__, repeats=3, cases=CASES)
    specs = [ServerSpec(flavour, flavour, ("--max-binlog-size=1G",)) for flavour in FLAVOURS]
    with running_servers(specs) as servers, tempfile.TemporaryDirectory(prefix="dm-bench-") as folder:
        mariadb, mysql = servers
        compared = [
            *cases(mariadb, Path(folder), "", "mariadb-binlog", options),
            *cases(mysql, Path(folder), "mysql_", "mysqlbinlog", options),
        ]
        publish("relay", measure(compared, options.repeats, servers), options, servers)


if __name__ == "__main__":
    main()
