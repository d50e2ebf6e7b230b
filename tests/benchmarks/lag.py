"""How long a committed row takes to the target, and what a sync costs that has caught up: the real relay and Spark app
beside a native replica with one applier, MariaDB to MariaDB.

A writer commits a transaction of an INSERT and an UPDATE at a fixed rate; a reader asks the target for new rows all the
time. The lag of a row is the time from the return of its COMMIT at the source until the reader has it, so it includes
the reader's period (about 1 ms) and its query.

- 300, 1000: that many transactions a second for 15 s (`p50_ms_at_300`, `p99_ms_at_300`, `cores_at_300` and so on).
- idle: nothing is written (`cores_idle`).

`cores` is the CPU of the side's processes by the clock: relay, driver, JVM and workers; for the replica, its server.
`peak_mb` is the sum of the PSS of the same processes, at its peak after the start, so it is the memory of a sync of one
source.
The start of a side is outside of all figures.
"""

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import pymysql
from pymysql.constants import CLIENT

from airflow_provider_dm.engine.config.job import UNTIL_FOREVER
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.submit import SparkApp
from testbed import Server
from tests.benchmarks import relay, workload
from tests.benchmarks.app import meta_url
from tests.benchmarks.harness import MEGA, Case, Run, Side, arguments, in_child, measure, publish
from tests.benchmarks.processes import Tree
from tests.benchmarks.sync import (
    BASE,
    LIMIT_SECONDS,
    THREADS,
    Written,
    WrongSync,
    begin_replica,
    check,
    incremental_sync,
    refill,
    servers_for,
)
from tests.benchmarks.workload import SCHEMA, BinlogFile
from tests.jobs import META_VARIABLE

SECONDS: Final = 15.0
CASES: Final = {"300": 300, "1000": 1000, "idle": 0}
NAME: Final = "lag"
LOOK_SECONDS: Final = 0.001
WARM_ROWS: Final = 20
TABLE: Final = "CREATE TABLE {name} (id BIGINT NOT NULL PRIMARY KEY, k INT NOT NULL, pad CHAR(180) NOT NULL)"
WRITE: Final = (
    f"BEGIN; INSERT INTO `{SCHEMA}`.`{NAME}` VALUES ({{id}}, 0, REPEAT('p', 180)); "
    f"UPDATE `{SCHEMA}`.`{NAME}` SET k = k + 1 WHERE id = {{id}} - 100; COMMIT"
)

Login = dict[str, Any]


def lag_of(source: Login, target: Login, first: int, rate: int, duration: float) -> Run:
    """Write from row `first` on, and return the lags. Its process does nothing else. Raises WrongSync."""
    count = int(rate * duration)
    written: dict[int, float] = {}
    seen: dict[int, float] = {}
    failed: list[BaseException] = []

    def write() -> None:
        try:
            with pymysql.connect(**source) as connection, connection.cursor() as cursor:
                began = time.perf_counter()
                for number in range(count):
                    time.sleep(max(0.0, began + number / rate - time.perf_counter()))
                    cursor.execute(WRITE.format(id=first + number))
                    while cursor.nextset():
                        pass
                    written[first + number] = time.perf_counter()
        except BaseException as error:  # noqa: BLE001 (raised by the reader)
            failed.append(error)

    writer = threading.Thread(target=write, daemon=True)
    began = time.perf_counter()
    with pymysql.connect(**target) as connection, connection.cursor() as cursor:
        writer.start()
        complete = first
        while len(seen) < count:
            cursor.execute(f"SELECT id FROM `{SCHEMA}`.`{NAME}` WHERE id >= {complete}")
            now = time.perf_counter()
            for (found,) in cursor.fetchall():
                seen.setdefault(found, now)
            while complete in seen:
                complete += 1
            if failed or now - began > LIMIT_SECONDS:
                raise WrongSync(f"{len(seen)} of {count} rows are in the target: {failed}")
            time.sleep(LOOK_SECONDS)
    writer.join()
    time.sleep(max(0.0, began + duration - time.perf_counter()))
    seconds = time.perf_counter() - began
    lags = sorted(1000 * (seen[number] - written[number]) for number in written)
    extra = dict(zip(("p50_ms", "p99_ms"), quantiles(lags, n=100)[49:99:49], strict=True)) if lags else {}
    return Run(count, seconds, 0.0, 0.0, extra)


def watched_lag(source: Server, target: Server, first: int, rate: int, duration: float, roots: Sequence[int]) -> Run:
    """The same in a process of its own, with the CPU and memory of the trees of `roots`."""
    tree, ended = Tree(), threading.Event()
    tree.look(roots)
    before = tree.cpu_seconds

    def sample() -> None:
        while not ended.wait(1.0):
            tree.look(roots)

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        run = in_child(lag_of, _login(source), _login(target), first, rate, duration)
    finally:
        ended.set()
        sampler.join()
    tree.look(roots)
    used = tree.cpu_seconds - before
    return replace(run, cpu_seconds=used, peak_bytes=tree.peak_bytes, extra={**run.extra, "cores": used / run.seconds})


def _login(server: Server) -> Login:
    return {**server.client_config(), "autocommit": True, "ssl_disabled": True, "client_flag": CLIENT.MULTI_STATEMENTS}


# The sides


def of_app(source: Server, target: Server, written: Written, rate: int, duration: float) -> Run:
    with app_running(source, target, written) as roots:
        return measured(source, target, written, rate, duration, roots)


def of_replica(source: Server, replica: Server, written: Written, rate: int, duration: float) -> Run:
    begin_replica(source, replica, written)
    replica.sql("START SLAVE")
    try:
        return measured(source, replica, written, rate, duration, (replica.pid,))
    finally:
        replica.sql("STOP SLAVE")


def measured(source: Server, target: Server, written: Written, rate: int, duration: float, roots: Sequence[int]) -> Run:
    """Wait until some rows have arrived one by one, so that the side is warm; then measure."""
    first = source.sql(f"SELECT MAX(id) + 1 FROM `{SCHEMA}`.`{NAME}`")[0][0]
    for row in range(first, first + WARM_ROWS):
        source.sql(WRITE.format(id=row))
        began = time.perf_counter()
        while not target.sql(f"SELECT 1 FROM `{SCHEMA}`.`{NAME}` WHERE id = {row}"):
            if time.perf_counter() - began > LIMIT_SECONDS:
                raise WrongSync(f"row {row} is not in the target")
            time.sleep(LOOK_SECONDS)
    run = watched_lag(source, target, first + WARM_ROWS, rate, duration, roots)
    check(source, target, written)
    return run


@contextmanager
def app_running(source: Server, target: Server, written: Written) -> Iterator[tuple[int, ...]]:
    """The relay and the app, which read the log from its beginning; gives their processes."""
    refill(target, written)
    job = incremental_sync(source, target, written, UNTIL_FOREVER)
    environment = {**os.environ, META_VARIABLE: meta_url(written.work).reveal()}
    puller = RelayProcess.start(
        relay.relay_of(source, written.file, written.work / "relay"), environment, written.work / "relay.log"
    )
    try:
        with tempfile.TemporaryDirectory(dir=written.work) as run_dir:
            app = SparkApp.start(job, run_dir=Path(run_dir), settings=SparkSettings(master=f"local[{THREADS},4]"))
            try:
                yield (app.pid, puller.pid)
            finally:
                app.stop()
    finally:
        puller.stop()


# The run


def begin(source: Server, others: Sequence[Server], work: Path) -> Written:
    """An empty table everywhere, and a log that begins now."""
    workload.create(source, NAME, TABLE)
    for other in others:
        workload.create(other, NAME, TABLE, schema=BASE)
        other.sql(f"CREATE DATABASE IF NOT EXISTS `{SCHEMA}`")
    name = workload.begin_file(source)
    file = BinlogFile(name, str(source.datadir / name), 0, 0, workload.definition(source, NAME))
    source.sql(WRITE.format(id=1))
    written = Written((NAME,), 0, file, 0, 0, work / NAME)
    written.work.mkdir()
    migrate(meta_url(written.work).reveal())
    return written


def main() -> None:
    options = arguments(__doc__, repeats=3, cases=[*CASES])
    with servers_for("mariadb") as servers, tempfile.TemporaryDirectory(prefix="dm-bench-") as work:
        source, target, replica = servers
        written = begin(source, (target, replica), Path(work))
        duration, cases = SECONDS * options.size, []
        for name in options.cases:
            rate = CASES[name]
            ours = Side("relay and incremental_sync", partial(of_app, source, target, written, rate, duration))
            peer = Side("replica", partial(of_replica, source, replica, written, rate, duration))
            cases.append(Case(name, "transactions", ours, peer if rate else None))
        outcomes = measure(cases, options.repeats, servers)
        figures: dict[str, Any] = {
            f"{key}{'_' if one.case.name == 'idle' else '_at_'}{one.case.name}": median(run.extra[key] for run in runs)
            for one in outcomes
            if (runs := one.runs[one.case.subject.name])
            for key in runs[0].extra
        }
        app_runs = [run for one in outcomes for run in one.runs[one.case.subject.name]]
        figures["peak_mb"] = max(run.peak_bytes for run in app_runs) / MEGA
        publish("lag", outcomes, options, servers, **figures)


if __name__ == "__main__":
    main()
