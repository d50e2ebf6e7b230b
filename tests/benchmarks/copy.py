"""A full copy of one table: the real Spark app beside mydumper and myloader, MariaDB to MariaDB.

With `--target mysql` or `tidb`: MariaDB to that, without a peer. The environment variable DM_TIDB_SERVER names TiDB's
program.

Both sides copy into the same target server, into a schema that is dropped before each run; each copy is compared with
the source, outside of the clock. Spark runs as `local[2]`. mydumper and myloader have 2 or 4 threads, whichever is
quicker in a run beforehand (`--rows=…`, so that one table is dumped and loaded in parallel). Where they are not
installed: `mariadb-dump | mariadb`, and the table says so.

- 2m: sysbench's table (about 190 bytes a row, one secondary index), 2,000,000 rows.
- 10m: the same with 10,000,000 rows; only if `--cases` names it. It needs 12 GB of disk.
- wide: 1,000,000 rows of 20 columns of as many types.
- CASE_with_start: the same runs by the wall clock of the whole process, from spark-submit to its exit. The others have
  the seconds of what the app calls its run: survey, creation of the table, chunks, hand-over. The JVM, Python and the
  metadata DB have started before that (`spark_start_seconds`); Spark's first job, which starts its Python workers, is
  inside.

Target of both: innodb_autoinc_lock_mode=2 (MySQL's default), innodb_flush_log_at_trx_commit=2, no binlog (myloader
switches it off for its session, which others may not do).

What is not comparable:
- The engine records every page's progress in the target, in the page's transaction, and can continue after a crash.
  myloader begins again.
- Both copy one consistent snapshot, opened under a global read lock.
- mydumper writes all rows to files and myloader reads them back (page cache); the engine holds a page in memory.
- CPU and peak memory are those of the process tree from its start to its end, so rows per CPU second contain the start
  of the JVM in both cases: a JVM and Python workers on one side, small C programs on the other.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from airflow_provider_dm.engine.meta.migrate import migrate
from testbed import Flavour, Server, ServerSpec, running_servers
from tests.benchmarks import workload
from tests.benchmarks.app import job_of, meta_url, run_app
from tests.benchmarks.harness import Case, Run, Side, arguments, measure, note, publish, with_start
from tests.benchmarks.processes import watched
from tests.benchmarks.workload import PAD, SCHEMA, C

THREADS: Final = 2
PEER_THREADS: Final = (2, 4)
DUMP_CHUNK_ROWS: Final = 100_000
TABLE: Final = "copied"
SBTEST_ROW: Final = f"seq, FLOOR(RAND() * 1e6), {C}, {PAD}"
TABLES: Final = {
    # name: (definition, a row, rows)
    "2m": (workload.SBTEST, SBTEST_ROW, 2_000_000),
    "10m": (workload.SBTEST, SBTEST_ROW, 10_000_000),
    "wide": (workload.WIDE, workload.WIDE_ROW, 1_000_000),
}
TARGETS: Final[tuple[Flavour, ...]] = ("mariadb", "mysql", "tidb")
META_SCHEMA: Final = "dm_meta"
OPTIONS: Final[dict[Flavour, tuple[str, ...]]] = {
    "mariadb": ("--innodb-buffer-pool-size=1G", "--innodb-log-file-size=512M", "--innodb-autoinc-lock-mode=2"),
    "mysql": ("--innodb-buffer-pool-size=1G", "--innodb-redo-log-capacity=512M"),
    "tidb": (),
}


class WrongCopy(RuntimeError):
    """A side's copy differs from its source, so its speed is meaningless."""


# The sides


def spark_app(source: Server, target: Server, folder: Path) -> Run:
    work = Path(tempfile.mkdtemp(dir=folder))
    migrate(meta_url(work))
    task = {
        "task-mode": "full",
        "meta-schema": META_SCHEMA,
        "block-allow-list": {"one": {"do-tables": [{"db-name": SCHEMA, "tbl-name": TABLE}]}},
        "mysql-instances": [{"source-id": "bench", "block-allow-list": "one"}],
    }
    return run_app(job_of("full_migration", task, source, target, work), work, work, THREADS, "rows")


def mydumper_and_myloader(rows: int, threads: int, source: Server, target: Server, folder: Path) -> Run:
    """Dump to files, then load them."""
    dump = folder / "dump"
    tables = [f"--database={SCHEMA}", f"--tables-list={TABLE}", f"--rows={DUMP_CHUNK_ROWS}"]
    steps = [
        ["mydumper", *_login(source), *tables, f"--threads={threads}", f"--outputdir={dump}"],
        ["myloader", *_login(target), f"--threads={threads}", f"--directory={dump}"],
    ]
    runs = [_command(argv) for argv in steps]
    shutil.rmtree(dump)
    extra = {"dump_seconds": runs[0].seconds, "load_seconds": runs[1].seconds}
    seconds, cpu = sum(run.seconds for run in runs), sum(run.cpu_seconds for run in runs)
    return Run(rows, seconds, cpu, max(run.peak_bytes for run in runs), extra)


def dump_into_client(rows: int, source: Server, target: Server, folder: Path) -> Run:
    """mariadb-dump | mariadb."""
    began = time.perf_counter()
    with (
        subprocess.Popen(
            ["mariadb-dump", "--no-defaults", *_login(source), "--databases", SCHEMA, "--tables", TABLE],
            stdout=subprocess.PIPE,
        ) as dump,
        subprocess.Popen(["mariadb", "--no-defaults", *_login(target), SCHEMA], stdin=dump.stdout) as load,
        watched(dump.pid, load.pid) as tree,
    ):
        if dump.stdout is not None:
            dump.stdout.close()  # so that the dump ends when the load does
        codes = load.wait(), dump.wait()
    if any(codes):
        raise WrongCopy(f"mariadb-dump | mariadb ended with {codes}")
    seconds = time.perf_counter() - began
    return Run(rows, seconds, tree.cpu_seconds, tree.peak_bytes)


def _login(server: Server) -> list[str]:
    return [f"--host={server.host}", f"--port={server.port}", f"--user={server.user}"]


def _command(argv: Sequence[str]) -> Run:
    """Run it to its end. Raises WrongCopy."""
    began = time.perf_counter()
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    with watched(process.pid) as tree:
        code = process.wait()
    if code != 0:
        raise WrongCopy(f"{argv[0]} ended with {code}")
    return Run(0, time.perf_counter() - began, tree.cpu_seconds, tree.peak_bytes)


# The run


def case(name: str, source: Server, target: Server, folder: Path, size: float) -> Case:
    """Writes the table, chooses the peer and names the comparison. The table is replaced by the next case's."""
    definition, row, rows = TABLES[name]
    rows = int(rows * size)
    note(f"{name}: writing {rows} rows")
    table = workload.create(source, TABLE, definition)
    fill = f"INSERT INTO {table} SELECT {row} FROM seq_1_to_{rows}"
    source.sql(f"SET SESSION sql_log_bin = 0; {fill}", database=SCHEMA)

    def side(what: str, run: Callable[[Server, Server, Path], Run]) -> Side:
        return Side(
            what, partial(run, source, target, folder), partial(emptied, target), partial(check, source, target)
        )

    return Case(name, "rows", side("full_migration", spark_app), peer(source, target, rows, side))


def peer(
    source: Server, target: Server, rows: int, side: Callable[[str, Callable[[Server, Server, Path], Run]], Side]
) -> Side | None:
    """The quickest of the tools that this machine has for this target."""
    if target.flavour != source.flavour:
        return None
    if not (shutil.which("mydumper") and shutil.which("myloader")):
        note("mydumper and myloader are not installed (apt-get install mydumper): the peer is mariadb-dump | mariadb")
        return side("mariadb-dump | mariadb", partial(dump_into_client, rows))
    found = {}
    for threads in PEER_THREADS:
        note(f"mydumper and myloader with {threads} threads")
        one = side(f"mydumper, myloader, {threads} threads", partial(mydumper_and_myloader, rows, threads))
        one.prepare()
        found[one.run().seconds] = one
    return found[min(found)]


def emptied(target: Server) -> None:
    target.sql(f"DROP DATABASE IF EXISTS `{SCHEMA}`; CREATE DATABASE `{SCHEMA}`")


def check(source: Server, target: Server) -> None:
    """Raises WrongCopy."""
    if not workload.equal(source, target, TABLE):
        raise WrongCopy("the rows of the copy differ from the source's")


@contextmanager
def two_servers(target: Flavour) -> Iterator[Sequence[Server]]:
    specs = [
        ServerSpec("source", "mariadb", OPTIONS["mariadb"]),
        ServerSpec("target", target, OPTIONS[target], binlog=False),
    ]
    with running_servers(specs) as servers:
        yield servers


def main() -> None:
    options = arguments(__doc__, repeats=3, cases=[*TABLES], usual=("2m", "wide"), targets=TARGETS)
    with two_servers(options.target) as (source, target), tempfile.TemporaryDirectory(prefix="dm-bench-") as folder:
        outcomes = []
        for name in options.cases:
            one = case(name, source, target, Path(folder), options.size)
            outcomes += measure([one], options.repeats, (source, target))
        runs = [run for outcome in outcomes for run in outcome.runs[outcome.case.subject.name]]
        start = median(run.extra["spark_start_seconds"] for run in runs)
        publish("copy", [*outcomes, *map(with_start, outcomes)], options, (source, target), spark_start_seconds=start)


if __name__ == "__main__":
    main()
