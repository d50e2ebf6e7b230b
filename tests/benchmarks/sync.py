"""The incremental sync of one table: the real Spark app beside a native replica with one applier, MariaDB to MariaDB.

Both have pulled the log before the clock starts, and apply it to a table of 100,000 rows that was filled alike. After
each run the table is compared with the source's by CHECKSUM TABLE, outside of the clock.

- oltp: sysbench's oltp_write_only in shape: transactions of two updates, a delete and an insert of a row; skewed keys.
- hot: transactions of one update each, of a hundred rows.
- bulk: inserts of 2,520 rows at once.
- with_start: oltp by the wall clock of the whole process, from spark-submit to its exit. The start is a fixed number
  of seconds; that ratio says something about this many changes and nothing about more.

An app starts Spark, opens the source and the target, and waits in its first epoch for Python workers that import the
engine and load its kernels. What that takes (`start_seconds`) is measured beforehand, by apps that end behind the log's
first transaction, and not counted but in with_start.

All servers: innodb_flush_log_at_trx_commit=2, target and replica without a binlog.

What is not comparable:
- The engine folds the changes of many transactions into one for each row, so readers of the target see states that the
  source never had; the replica applies transaction by transaction. `apply: transactional` would do so, too.
- The replica is inside its server: the CPU of its side is that server's, and is counted as the servers' as well.
- CPU and memory of the app's side contain its start.
"""

import os
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from pymysql.cursors import DictCursor

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.launch.job import Job, Upstream, build_job, local_holder
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.submit import SparkApp
from testbed import Server, ServerSpec, running_servers
from tests.benchmarks import relay, workload
from tests.benchmarks.copy import with_start
from tests.benchmarks.harness import Case, Run, Side, arguments, measure, note, publish
from tests.benchmarks.processes import cpu_of, peak_rss_of, watched
from tests.benchmarks.workload import SCHEMA, BinlogFile

BASE_ROWS: Final = 100_000
TRANSACTIONS: Final = 120_000
HOT_UPDATES: Final = 600_000
BULK_ROWS: Final = 504_000
THREADS: Final = 2
META_SCHEMA: Final = "dm_meta"
BASE: Final = "bench_base"
LOOK_SECONDS: Final = 0.01
LIMIT_SECONDS: Final = 600.0
OPTIONS: Final = (
    "--innodb-buffer-pool-size=1G",
    "--innodb-log-file-size=512M",
    "--max-binlog-size=1G",
    "--skip-slave-start",
)
GROUPS: Final = "LPAD(FLOOR(RAND() * 1e11), 11, '0')"
C, PAD = (f"CONCAT_WS('-', {', '.join([GROUPS] * count)})" for count in (10, 5))

WRITES: Final = {
    # name: (changes, statements; {table} is the table)
    "oltp": (
        4 * TRANSACTIONS,
        f"""FOR i IN 1..{TRANSACTIONS} DO
            SET @id = FLOOR(POW(RAND(), 3) * {BASE_ROWS}) + 1, @other = FLOOR(POW(RAND(), 3) * {BASE_ROWS}) + 1;
            START TRANSACTION;
            UPDATE {{table}} SET k = k + 1 WHERE id = @other;
            UPDATE {{table}} SET c = {C} WHERE id = @id;
            DELETE FROM {{table}} WHERE id = @id;
            INSERT INTO {{table}} VALUES (@id, i, {C}, {PAD});
            COMMIT;
        END FOR""",
    ),
    "hot": (
        HOT_UPDATES,
        f"FOR i IN 1..{HOT_UPDATES} DO UPDATE {{table}} SET k = k + 1 WHERE id = 1 + i MOD 100; END FOR",
    ),
    "bulk": (
        BULK_ROWS,
        f"""FOR i IN 1..{BULK_ROWS // 2520} DO
            INSERT INTO {{table}} (k, c, pad) SELECT FLOOR(RAND() * 1e6), {C}, {PAD} FROM seq_1_to_2520;
        END FOR""",
    ),
}


class WrongSync(RuntimeError):
    """A side's table is not its source: then its speed says nothing."""


@dataclass(frozen=True)
class Written:
    """A workload in the log of the source, as the relay has it. `relay_dir`: below `work`, beside its metadata DB."""

    name: str
    changes: int
    file: BinlogFile
    first: int
    """Where the first transaction ends."""
    end: int
    work: Path


# The sides


def spark_app(source: Server, target: Server, written: Written, start_seconds: float) -> Run:
    """`incremental_sync` as dmctl and the operators start it, without the time that any start takes."""
    refill(target, written.name)
    run, whole = app_run(source, target, written, written.end)
    check(source, target, written)
    return replace(run, seconds=run.seconds - start_seconds, extra={"process_seconds": whole})


def start_seconds(source: Server, target: Server, written: Written) -> float:
    """What an app takes that does next to nothing."""
    found = []
    for _ in range(3):
        refill(target, written.name)
        found.append(app_run(source, target, written, written.first)[0].seconds)
    return median(found)


def app_run(source: Server, target: Server, written: Written, end: int) -> tuple[Run, float]:
    """Sync up to `end`. Gives what the app calls its run, and the seconds from spark-submit to its exit."""
    job = incremental_sync(source, target, written, f"{written.file.name}:{end}")
    settings = SparkSettings(master=f"local[{THREADS},4]")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=written.work) as run_dir:
        app = SparkApp.start(job, run_dir=Path(run_dir), settings=settings)
        try:
            with watched(app.pid) as tree:
                app.wait()
            whole = time.perf_counter() - began
        finally:
            app.stop()
        with MetaStore.open(meta_url(written)) as store:
            outcome = app.outcome(store.get_run)
        if not outcome.finished:
            raise WrongSync(f"the app was stopped:\n{app.log_path.read_text()[-4000:]}")
    result = outcome.result
    return Run(result["changes_applied"], float(result["seconds"]), tree.cpu_seconds, tree.peak_rss_bytes), whole


def incremental_sync(source: Server, target: Server, written: Written, until: str) -> Job:
    """The job; a task name of its own for each run, as each begins at the beginning."""
    name = f"bench_{uuid.uuid4().hex[:8]}"
    meta = {"binlog-name": written.file.name, "binlog-pos": 4}
    task = {
        "name": name,
        "task-mode": "incremental",
        "meta-schema": META_SCHEMA,
        "block-allow-list": {"one": {"do-tables": [{"db-name": SCHEMA, "tbl-name": written.name}]}},
        "mysql-instances": [{"source-id": "bench", "block-allow-list": "one", "meta": meta}],
    }
    return build_job(
        app="incremental_sync",
        task=TaskConfig.model_validate(task),
        upstreams=[
            Upstream(
                SourceConfig.model_validate({"source-id": "bench"}), _endpoint("bench", source), written.work / "relay"
            )
        ],
        target=_endpoint("target", target),
        meta_url=meta_url(written),
        launched_behind={},
        holder=local_holder(name, written.work),
        until=until,
    )


def _endpoint(name: str, server: Server) -> Endpoint:
    return Endpoint(name, server.host, server.port, server.user)


def meta_url(written: Written) -> Secret:
    return Secret(f"sqlite:///{written.work}/meta.db")


def native_replica(source: Server, replica: Server, written: Written) -> Run:
    """The replica's SQL thread, behind an IO thread that has pulled everything."""
    begin_replica(source, replica, written)
    replica.sql("START SLAVE IO_THREAD")
    _wait_for(replica, "Read_Master_Log_Pos", written)
    began, cpu = time.perf_counter(), cpu_of(replica.pid) or 0.0
    replica.sql("START SLAVE SQL_THREAD")
    _wait_for(replica, "Exec_Master_Log_Pos", written)
    seconds, used = time.perf_counter() - began, (cpu_of(replica.pid) or 0.0) - cpu
    check(source, replica, written)
    return Run(written.changes, seconds, used, peak_rss_of(replica.pid))


def begin_replica(source: Server, replica: Server, written: Written) -> None:
    """Fill the table and name the log; no thread of the replica is started."""
    replica.sql("STOP SLAVE; RESET SLAVE ALL")
    refill(replica, written.name)
    replica.sql(
        f"CHANGE MASTER TO master_host='{source.host}', master_port={source.port}, master_user='{source.user}', "
        f"master_log_file='{written.file.name}', master_log_pos=4, master_use_gtid=no, master_ssl=0"
    )


def _wait_for(replica: Server, field: str, written: Written) -> None:
    """Wait until the replica's status shows the end of the log. Raises WrongSync."""
    began = time.perf_counter()
    while True:
        shown = status(replica, "SHOW SLAVE STATUS")
        log_file = shown["Master_Log_File" if field[0] == "R" else "Relay_Master_Log_File"]
        if log_file > written.file.name or (log_file == written.file.name and int(shown[field]) >= written.end):
            return
        problem = shown["Last_IO_Error"] or shown["Last_SQL_Error"]
        if problem or time.perf_counter() - began > LIMIT_SECONDS:
            raise WrongSync(f"the replica stands at {log_file}:{shown[field]}: {problem}")
        time.sleep(LOOK_SECONDS)


def status(server: Server, show: str) -> dict[str, Any]:
    """The only row of a SHOW statement."""
    with server.connect(cursorclass=DictCursor) as connection, connection.cursor() as cursor:
        cursor.execute(show)
        return dict(cursor.fetchone() or {})


# The data


def write(source: Server, others: Sequence[Server], name: str, work: Path) -> Written:
    """Fill the table everywhere, write the log at the source, and pull it as a relay does."""
    changes, statements = WRITES[name]
    table = workload.create(source, name, workload.SBTEST)
    fill = f"SELECT seq, FLOOR(RAND(seq) * 1e6), REPEAT(seq MOD 10, 119), REPEAT('p', 59) FROM seq_1_to_{BASE_ROWS}"
    source.sql(f"INSERT INTO {table} {fill}", database=SCHEMA)
    for other in others:
        other.sql(f"CREATE DATABASE IF NOT EXISTS `{BASE}`; CREATE DATABASE IF NOT EXISTS `{SCHEMA}`")
        base = f"`{BASE}`.`{name}`"
        other.sql(workload.SBTEST.format(name=base))
        other.sql(f"INSERT INTO {base} {fill}", database=BASE)
    source.sql(f"CREATE OR REPLACE PROCEDURE `{SCHEMA}`.`write_{name}`() {statements.format(table=table)}")
    log_file = workload.begin_file(source)
    source.sql(f"CALL `{SCHEMA}`.`write_{name}`()")
    end = int(status(source, "SHOW MASTER STATUS")["Position"])
    events = source.sql(f"SHOW BINLOG EVENTS IN '{log_file}' LIMIT 100")
    first = next(int(end_log_pos) for _, _, kind, _, end_log_pos, _ in events if kind == "Xid")
    written = Written(name, changes, workload.end_file(source, log_file, name, changes), first, end, work / name)
    written.work.mkdir()
    pull(source, written)
    return written


def refill(server: Server, name: str) -> None:
    """The table as it was in front of the log."""
    table, base = f"`{SCHEMA}`.`{name}`", f"`{BASE}`.`{name}`"
    server.sql(
        f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} LIKE {base}; INSERT INTO {table} SELECT * FROM {base}"
    )


def check(source: Server, server: Server, written: Written) -> None:
    """Raises WrongSync."""
    theirs, ours = (one.sql(f"CHECKSUM TABLE `{SCHEMA}`.`{written.name}`")[0][1] for one in (source, server))
    if theirs != ours:
        raise WrongSync(f"{written.name}: CHECKSUM TABLE differs from the source's")


def pull(source: Server, written: Written) -> None:
    """Have the engine's relay pull the whole file."""
    url = meta_url(written).reveal()
    migrate(url)
    spec = relay.relay_spec(source, written.file, written.work / "relay")
    environment = {**os.environ, relay.META_VARIABLE: url}
    process = RelayProcess.start(spec, environment, written.work / "relay.log")
    try:
        growth = relay.Growth(process.pid, lambda: not process.alive(), written.file.size, time.perf_counter())
        growth.watch(lambda: next((written.work / "relay").glob(f"*.000001/{written.file.name}"), None))
    finally:
        process.stop()


# The run


def cases(source: Server, target: Server, replica: Server, work: Path) -> tuple[list[Case], float]:
    """Writes the logs and names the comparisons; gives what a start takes, too."""
    logs = []
    for name, (changes, _) in WRITES.items():
        note(f"{name}: writing {changes} changes")
        logs.append(write(source, (target, replica), name, work))
    note("the start of an app")
    start = start_seconds(source, target, logs[0])
    found = []
    for written in logs:
        ours = Side("incremental_sync", partial(spark_app, source, target, written, start))
        peer = Side("replica", partial(native_replica, source, replica, written))
        found.append(Case(written.name, "changes", ours, peer))
    return found, start


@contextmanager
def three_servers() -> Iterator[Sequence[Server]]:
    names = ("source", "target", "replica")
    specs = [ServerSpec(name, "mariadb", OPTIONS, binlog=name == "source") for name in names]
    with running_servers(specs) as servers:
        yield servers


def main() -> None:
    options = arguments(__doc__, repeats=3)
    with three_servers() as servers, tempfile.TemporaryDirectory(prefix="dm-bench-") as work:
        source, target, replica = servers
        source.sql("SET GLOBAL binlog_format = 'ROW'")
        compared, start = cases(source, target, replica, Path(work))
        outcomes = measure(compared, options.repeats, servers)
        publish("sync", [*outcomes, with_start(outcomes[0])], options, servers, start_seconds=start)


if __name__ == "__main__":
    main()
