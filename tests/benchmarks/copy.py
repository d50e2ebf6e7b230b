"""A full copy of one table of a million rows: the real Spark app beside mydumper and myloader, MariaDB to MariaDB.

The table is sysbench's (about 190 bytes a row, one secondary index). Both sides copy into the same target server, into
a schema that is dropped before each run; each copy is compared with the source by CHECKSUM TABLE, outside of the clock.
Two threads on each side: Spark `local[2]`, `mydumper --threads=2 --rows=…` (so that one table is dumped and loaded in
parallel), `myloader --threads=2`. Where they are not installed: `mariadb-dump | mariadb`, and the table says so.

- copy: rows per second of what the app calls its run: survey, creation of the table, chunks, hand-over. The JVM, Python
  and the metadata DB have started before that; Spark's first job, which starts its Python workers, is inside.
- with_start: the same runs by the wall clock of the whole process, from spark-submit to its exit. The start is a fixed
  number of seconds (`spark_start_seconds`), so this ratio says something about a million rows and nothing about more.

Target of both: innodb_autoinc_lock_mode=2 (MySQL's default), innodb_flush_log_at_trx_commit=2, no binlog (myloader
switches it off for its session, which others may not do).

What is not comparable:
- The engine records every page's progress in the target, in the page's transaction, and can go on after a crash.
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
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.launch.job import Job, Upstream, build_job, local_holder
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.submit import SparkApp
from testbed import Server, ServerSpec, running_servers
from tests.benchmarks import workload
from tests.benchmarks.harness import Case, Outcome, Run, Side, arguments, measure, note, publish
from tests.benchmarks.processes import watched
from tests.benchmarks.workload import SCHEMA

ROWS: Final = 1_000_000
THREADS: Final = 2
DUMP_CHUNK_ROWS: Final = 100_000
TABLE: Final = "copied"
META_SCHEMA: Final = "dm_meta"
OPTIONS: Final = (
    "--innodb-buffer-pool-size=1G",
    "--innodb-log-file-size=512M",
    "--innodb-autoinc-lock-mode=2",
)


class WrongCopy(RuntimeError):
    """A side's copy is not its source: then its speed says nothing."""


# The sides


def spark_app(source: Server, target: Server, folder: Path) -> Run:
    """`full_migration` as dmctl and the operators start it."""
    work = Path(tempfile.mkdtemp(dir=folder))
    url = Secret(f"sqlite:///{work}/meta.db")
    migrate(url)
    job = full_migration(source, target, url, work)
    settings = SparkSettings(master=f"local[{THREADS},4]")
    began = time.perf_counter()
    app = SparkApp.start(job, run_dir=work, settings=settings)
    try:
        with watched(app.pid) as tree:
            app.wait()
        whole = time.perf_counter() - began
    finally:
        app.stop()
    with MetaStore.open(url) as store:
        outcome = app.outcome(store.get_run)
    if not outcome.finished:
        raise WrongCopy(f"the app was stopped; its log is {app.log_path}")
    seconds = float(outcome.result["seconds"])
    extra = {"process_seconds": whole, "spark_start_seconds": whole - seconds}
    return Run(outcome.result["rows"], seconds, tree.cpu_seconds, tree.peak_rss_bytes, extra)


def full_migration(source: Server, target: Server, url: Secret, work: Path) -> Job:
    """The job; a task name of its own for each run, as a finished task would not begin again."""
    name = f"bench_{uuid.uuid4().hex[:8]}"
    task = {
        "name": name,
        "task-mode": "full",
        "meta-schema": META_SCHEMA,
        "block-allow-list": {"one": {"do-tables": [{"db-name": SCHEMA, "tbl-name": TABLE}]}},
        "mysql-instances": [{"source-id": "bench", "block-allow-list": "one"}],
    }
    config = SourceConfig.model_validate({"source-id": "bench"})
    return build_job(
        app="full_migration",
        task=TaskConfig.model_validate(task),
        upstreams=[Upstream(config, _endpoint("bench", source), work / "relay")],
        target=_endpoint("target", target),
        meta_url=url,
        launched_behind={},
        holder=local_holder(name, work),
    )


def _endpoint(name: str, server: Server) -> Endpoint:
    return Endpoint(name, server.host, server.port, server.user)


def mydumper_and_myloader(source: Server, target: Server, folder: Path) -> Run:
    """Dump to files, then load them."""
    dump = folder / "dump"
    tables = [f"--database={SCHEMA}", f"--tables-list={TABLE}", f"--rows={DUMP_CHUNK_ROWS}"]
    steps = [
        ["mydumper", *_login(source), *tables, f"--threads={THREADS}", f"--outputdir={dump}"],
        ["myloader", *_login(target), f"--threads={THREADS}", f"--directory={dump}"],
    ]
    runs = [_command(argv) for argv in steps]
    shutil.rmtree(dump)
    extra = {"dump_seconds": runs[0].seconds, "load_seconds": runs[1].seconds}
    return Run(
        ROWS,
        sum(run.seconds for run in runs),
        sum(run.cpu_seconds for run in runs),
        max(run.peak_rss_bytes for run in runs),
        extra,
    )


def dump_into_client(source: Server, target: Server, folder: Path) -> Run:
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
    return Run(ROWS, time.perf_counter() - began, tree.cpu_seconds, tree.peak_rss_bytes)


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
    return Run(0, time.perf_counter() - began, tree.cpu_seconds, tree.peak_rss_bytes)


# The run


def cases(source: Server, target: Server, folder: Path) -> list[Case]:
    """Writes the table and names the comparison."""
    note(f"writing {ROWS} rows")
    fill(source)
    expected = checksum(source)
    dumper = shutil.which("mydumper") and shutil.which("myloader")
    name, peer = (
        ("mydumper, myloader", mydumper_and_myloader) if dumper else ("mariadb-dump | mariadb", dump_into_client)
    )
    if not dumper:
        note("mydumper and myloader are not installed (apt-get install mydumper): the peer is mariadb-dump | mariadb")

    def checked(side: Callable[[Server, Server, Path], Run]) -> Run:
        target.sql(f"DROP DATABASE IF EXISTS `{SCHEMA}`; CREATE DATABASE `{SCHEMA}`")
        run = side(source, target, folder)
        if checksum(target) != expected:
            raise WrongCopy(f"{side.__name__}: CHECKSUM TABLE differs from the source's")
        return run

    return [
        Case("copy", "rows", Side("full_migration", partial(checked, spark_app)), Side(name, partial(checked, peer)))
    ]


def with_start(outcome: Outcome) -> Outcome:
    """The same runs by the clock of the whole process."""
    runs = {
        name: [replace(run, seconds=run.extra.get("process_seconds", run.seconds)) for run in runs]
        for name, runs in outcome.runs.items()
    }
    return Outcome(replace(outcome.case, name="with_start"), runs)


def fill(source: Server) -> None:
    """The table, made by the server itself."""
    table = workload.create(source, TABLE, workload.SBTEST)
    group = "LPAD(FLOOR(RAND() * 1e11), 11, '0')"
    c, pad = (f"CONCAT_WS('-', {', '.join([group] * count)})" for count in (10, 5))
    source.sql(f"INSERT INTO {table} SELECT seq, FLOOR(RAND() * 1e6), {c}, {pad} FROM seq_1_to_{ROWS}", database=SCHEMA)


def checksum(server: Server) -> object:
    return server.sql(f"CHECKSUM TABLE `{SCHEMA}`.`{TABLE}`")[0][1]


@contextmanager
def two_servers() -> Iterator[Sequence[Server]]:
    specs = [ServerSpec(name, "mariadb", OPTIONS, binlog=name == "source") for name in ("source", "target")]
    with running_servers(specs) as servers:
        yield servers


def main() -> None:
    options = arguments(__doc__, repeats=3)
    with two_servers() as servers, tempfile.TemporaryDirectory(prefix="dm-bench-") as folder:
        source, target = servers
        (copy,) = measure(cases(source, target, Path(folder)), options.repeats, servers)
        starts = [run.extra["spark_start_seconds"] for run in copy.runs[copy.case.subject.name]]
        publish("copy", [copy, with_start(copy)], options, servers, spark_start_seconds=median(starts))


if __name__ == "__main__":
    main()
