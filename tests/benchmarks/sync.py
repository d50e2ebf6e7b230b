"""The incremental sync: the real Spark app beside a native replica. Both have pulled the log before the clock starts.

The tables were filled with 100,000 rows alike. After each run they are compared with the source's, outside of the
clock. `--target` names the target's flavour:

- mariadb: MariaDB to MariaDB, beside a replica with one applier, which is its default.
- mysql: MySQL to MySQL, beside a replica with four appliers, which is its default.
- tidb: MariaDB to TiDB, without a peer. The environment variable DM_TIDB_SERVER names the program.

The cases are logs of 1.2 million changes each:

- oltp: sysbench's oltp_write_only in shape: transactions of two updates, a delete and an insert of a row; skewed keys.
- oltp_uniform: the same with uniform keys.
- oltp_overwrite: the log of oltp in safe mode, so that rows which are in the way are overwritten. In all other cases
  the start is exact (`safe-mode-duration: 0s`), as it is after a load.
- hot: transactions of one update each, of a hundred rows.
- bulk: inserts of 2,520 rows at once.
- mixed: transactions of two changes in each of three tables: one with two more unique keys, whose values change; one
  with a text key; one with 20 columns of as many types.
- CASE_with_start: the same runs by the wall clock of the whole process, from spark-submit to its exit. The start is a
  fixed number of seconds; that ratio says something about this many changes and nothing about more.

An app starts Spark and opens the source and the target. What that takes (`start_seconds`, `start_cpu_seconds`) is
measured beforehand, by apps that end after the log's first transaction. These seconds are counted in with_start only.

All servers: innodb_flush_log_at_trx_commit=2 and innodb_autoinc_lock_mode=2, target and replica without a binlog.

What is not comparable:
- The engine folds the changes of many transactions into one for each row, so readers of the target see states that the
  source never had; the replica applies transaction by transaction. `apply: transactional` would do so, too.
- The replica is inside its server: the CPU of its side is that server's, and is counted as the servers' as well.
- CPU and memory of the app's side contain its start. The memory is that of driver and JVM, without the relay.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from pymysql.cursors import DictCursor

from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.launch.job import Job
from testbed import Flavour, Server, ServerSpec, running_servers
from tests.benchmarks import relay, workload
from tests.benchmarks.app import job_of, meta_url, run_app
from tests.benchmarks.harness import Case, Run, Side, arguments, measure, note, publish, with_start
from tests.benchmarks.processes import cpu_of, peak_rss_of
from tests.benchmarks.workload import PAD, SCHEMA, BinlogFile, C
from tests.jobs import META_VARIABLE

BASE_ROWS: Final = 100_000
THREADS: Final = 2
META_SCHEMA: Final = "dm_meta"
BASE: Final = "bench_base"
LOOK_SECONDS: Final = 0.01
LIMIT_SECONDS: Final = 600.0
TARGETS: Final[tuple[Flavour, ...]] = ("mariadb", "mysql", "tidb")
INNODB: Final = ("--innodb-buffer-pool-size=1G", "--innodb-autoinc-lock-mode=2", "--max-binlog-size=1G")
OPTIONS: Final[Mapping[Flavour, tuple[str, ...]]] = {
    "mariadb": (*INNODB, "--innodb-log-file-size=512M", "--skip-slave-start"),
    "mysql": (*INNODB, "--innodb-redo-log-capacity=512M", "--skip-replica-start"),
    "tidb": (),
}


@dataclass(frozen=True)
class Log:
    """What a source writes into its log: so many rounds of a body of a procedure, with so many changes each."""

    tables: Mapping[str, tuple[str, str]]
    """Definition, and the SQL of a first row by its number `seq`, by name."""
    rounds: int
    changes: int
    body: str


SBTEST_ROW: Final = "seq, seq * 7919 MOD 1000003, REPEAT(seq MOD 10, 119), REPEAT('p', 59)"
UNIQUE: Final = """CREATE TABLE {name} (
    id INT NOT NULL PRIMARY KEY, a INT NOT NULL, b CHAR(20) NOT NULL, k INT NOT NULL, UNIQUE KEY a (a),
    UNIQUE KEY b (b)) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_general_ci"""
TEXT: Final = """CREATE TABLE {name} (name VARCHAR(60) NOT NULL PRIMARY KEY, k INT NOT NULL, note VARCHAR(100) NOT NULL)
    DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_general_ci"""


def oltp(name: str, key: str) -> Log:
    """Transactions of sysbench's oltp_write_only. `key`: the SQL of a random number below 1."""
    table = f"`{SCHEMA}`.`{name}`"
    body = f"""
        SET @id = FLOOR({key} * {BASE_ROWS}) + 1, @other = FLOOR({key} * {BASE_ROWS}) + 1;
        START TRANSACTION;
        UPDATE {table} SET k = k + 1 WHERE id = @other;
        UPDATE {table} SET c = {C} WHERE id = @id;
        DELETE FROM {table} WHERE id = @id;
        INSERT INTO {table} VALUES (@id, turn, {C}, {PAD});
        COMMIT"""
    return Log({name: (workload.SBTEST, SBTEST_ROW)}, 300_000, 4, body)


MIXED_BODY: Final = f"""
    SET @id = FLOOR(RAND() * {BASE_ROWS}) + 1, @other = FLOOR(RAND() * {BASE_ROWS}) + 1;
    START TRANSACTION;
    UPDATE `{SCHEMA}`.mixed_unique SET a = 1000000 + turn, k = k + 1 WHERE id = @id;
    UPDATE `{SCHEMA}`.mixed_unique SET b = CONCAT('new ', turn) WHERE id = @other;
    UPDATE `{SCHEMA}`.mixed_text SET k = turn WHERE name = CONCAT('Käse ', @id);
    INSERT INTO `{SCHEMA}`.mixed_text VALUES (CONCAT('Neu ', turn), turn, REPEAT('note ', 10));
    UPDATE `{SCHEMA}`.mixed_wide SET price = turn / 100, changed = DATE_ADD(made, INTERVAL turn SECOND) WHERE id = @id;
    UPDATE `{SCHEMA}`.mixed_wide SET d = turn / 8, name = CONCAT('Ünïcode ', turn) WHERE id = @other;
    COMMIT"""

LOGS: Final = {
    "oltp": oltp("oltp", "POW(RAND(), 3)"),
    "oltp_uniform": oltp("oltp_uniform", "RAND()"),
    "hot": Log(
        {"hot": (workload.SBTEST, SBTEST_ROW)},
        1_200_000,
        1,
        f"UPDATE `{SCHEMA}`.hot SET k = k + 1 WHERE id = 1 + turn MOD 100",
    ),
    "bulk": Log(
        {"bulk": (workload.SBTEST, SBTEST_ROW)},
        480,
        2520,
        f"INSERT INTO `{SCHEMA}`.bulk (k, c, pad) SELECT FLOOR(RAND() * 1e6), {C}, {PAD} FROM {workload.numbers(2520)}",
    ),
    "mixed": Log(
        {
            "mixed_unique": (UNIQUE, "seq, seq, CONCAT('b', seq), 0"),
            "mixed_text": (TEXT, "CONCAT('Käse ', seq), 0, REPEAT('note ', seq MOD 20)"),
            "mixed_wide": (workload.WIDE, workload.WIDE_ROW),
        },
        200_000,
        6,
        MIXED_BODY,
    ),
}
OVERWRITE: Final = "_overwrite"
CASES: Final = (*LOGS, f"oltp{OVERWRITE}")


class WrongSync(RuntimeError):
    """A side's table differs from its source, so its speed is meaningless."""


@dataclass(frozen=True)
class Written:
    """A log of the source, as the relay has it. `relay_dir`: below `work`, beside its metadata DB."""

    tables: tuple[str, ...]
    changes: int
    file: BinlogFile
    first: int
    """Where the first transaction ends."""
    end: int
    work: Path
    safe: bool = False
    """The sync is in safe mode."""


# The sides


def spark_app(source: Server, target: Server, written: Written, start_seconds: float) -> Run:
    """`incremental_sync` as dmctl and the operators start it, without the time that any start takes."""
    run = app_run(source, target, written, written.end)
    return replace(run, seconds=run.seconds - start_seconds)


def start_of(source: Server, target: Server, written: Written) -> tuple[float, float]:
    """What an app takes that does next to nothing: seconds, and CPU seconds. The first is slower, nothing is cached."""
    found = []
    for _ in range(7):
        refill(target, written)
        found.append(app_run(source, target, written, written.first))
    return median(run.seconds for run in found), median(run.cpu_seconds for run in found)


def app_run(source: Server, target: Server, written: Written, end: int) -> Run:
    """Sync up to `end`, in the seconds that the app calls its run."""
    job = incremental_sync(source, target, written, f"{written.file.name}:{end}")
    with tempfile.TemporaryDirectory(dir=written.work) as run_dir:
        return run_app(job, written.work, Path(run_dir), THREADS, "changes_applied")


def incremental_sync(source: Server, target: Server, written: Written, until: str) -> Job:
    """The job; a task name of its own for each run, as each begins at the beginning."""
    meta = {"binlog-name": written.file.name, "binlog-pos": 4}
    tables = [{"db-name": SCHEMA, "tbl-name": table} for table in written.tables]
    task = {
        "task-mode": "incremental",
        "meta-schema": META_SCHEMA,
        "block-allow-list": {"one": {"do-tables": tables}},
        "mysql-instances": [
            {
                "source-id": "bench",
                "block-allow-list": "one",
                "meta": meta,
                "syncer": {"safe-mode": written.safe, "safe-mode-duration": "0s"},
            }
        ],
    }
    return job_of("incremental_sync", task, source, target, written.work, until)


def native_replica(replica: Server, written: Written) -> Run:
    """The replica's appliers, after a receiver that has pulled everything."""
    began, cpu = time.perf_counter(), cpu_of(replica.pid) or 0.0
    _replicate(replica, "START SLAVE SQL_THREAD")
    _wait_for(replica, "Exec_Master_Log_Pos", written)
    seconds, used = time.perf_counter() - began, (cpu_of(replica.pid) or 0.0) - cpu
    _replicate(replica, "STOP SLAVE")  # else it would apply the next case's log meanwhile
    return Run(written.changes, seconds, used, peak_rss_of(replica.pid))


def pull_into(replica: Server, source: Server, written: Written) -> None:
    """Have the replica's receiver pull everything, and stop it, as it would pull the next case's log meanwhile."""
    begin_replica(source, replica, written)
    _replicate(replica, "START SLAVE IO_THREAD")
    _wait_for(replica, "Read_Master_Log_Pos", written)
    _replicate(replica, "STOP SLAVE IO_THREAD")


def begin_replica(source: Server, replica: Server, written: Written) -> None:
    """Fill the tables and name the log; no thread of the replica is started."""
    _replicate(replica, "STOP SLAVE; RESET SLAVE ALL")
    if replica.flavour == "mysql":  # it skips transactions whose GTIDs it has
        replica.reset_log()
    refill(replica, written)
    how = "master_use_gtid=no, master_ssl=0" if replica.flavour == "mariadb" else "get_master_public_key=1"
    _replicate(
        replica,
        f"CHANGE MASTER TO master_host='{source.host}', master_port={source.port}, master_user='{source.user}', "
        f"master_log_file='{written.file.name}', master_log_pos=4, {how}",
    )


def _replicate(replica: Server, sql: str) -> None:
    replica.sql(_words(replica, sql))


def _words(replica: Server, text: str) -> str:
    """In the words of the replica's flavour; `text` has MariaDB's."""
    if replica.flavour == "mariadb":
        return text
    text = text.replace("CHANGE MASTER", "CHANGE REPLICATION SOURCE").replace("SLAVE", "REPLICA")
    return text.replace("master_", "source_").replace("Master_", "Source_")


def _wait_for(replica: Server, field: str, written: Written) -> None:
    """Wait until the replica's status shows the end of the log. Raises WrongSync."""
    began = time.perf_counter()
    while True:
        shown = _status(replica)
        log_file = shown[_words(replica, "Master_Log_File" if field[0] == "R" else "Relay_Master_Log_File")]
        position = int(shown[_words(replica, field)])
        if log_file > written.file.name or (log_file == written.file.name and position >= written.end):
            return
        problem = shown["Last_IO_Error"] or shown["Last_SQL_Error"]
        if problem or time.perf_counter() - began > LIMIT_SECONDS:
            raise WrongSync(f"the replica is at {log_file}:{position}: {problem}")
        time.sleep(LOOK_SECONDS)


def _status(replica: Server) -> dict[str, Any]:
    """The only row of SHOW REPLICA STATUS."""
    with replica.connect(cursorclass=DictCursor) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW REPLICA STATUS")
        return dict(cursor.fetchone() or {})


# The data


def write(source: Server, others: Sequence[Server], name: str, work: Path, size: float) -> Written:
    """Fill the tables everywhere, and write the log at the source."""
    for table, (definition, row) in LOGS[name].tables.items():
        for other in others:
            base = workload.create(other, table, definition, schema=BASE)
            other.sql(f"CREATE DATABASE IF NOT EXISTS `{SCHEMA}`; INSERT INTO {base} {first_rows(row)}")
    file, end = log_file(source, name, size)
    events = source.sql(f"SHOW BINLOG EVENTS IN '{file.name}' LIMIT 100")
    first = next(int(end_log_pos) for _, _, kind, _, end_log_pos, _ in events if kind == "Xid")
    return Written(tuple(LOGS[name].tables), file.rows, file, first, end, work)


def log_file(source: Server, name: str, size: float) -> tuple[BinlogFile, int]:
    """Fill the tables at the source and write the log. Also return where its last transaction ends."""
    log = LOGS[name]
    rounds = max(1, int(log.rounds * size))
    note(f"{name}: writing {rounds * log.changes} changes")
    for table, (definition, row) in log.tables.items():
        source.sql(f"INSERT INTO {workload.create(source, table, definition)} {first_rows(row)}")
    procedure = f"`{SCHEMA}`.`write_{name}`"
    source.sql(
        f"CREATE PROCEDURE {procedure}() BEGIN DECLARE turn INT DEFAULT 0; "
        f"WHILE turn < {rounds} DO SET turn = turn + 1; {log.body}; END WHILE; END"
    )
    file = workload.begin_file(source)
    source.sql(f"CALL {procedure}()")
    end = int(source.sql("SHOW BINARY LOGS")[-1][1])
    return workload.end_file(source, file, next(iter(log.tables)), rounds * log.changes), end


def first_rows(row: str) -> str:
    return f"SELECT {row} FROM {workload.numbers(BASE_ROWS)}"


def refill(server: Server, written: Written) -> None:
    """The tables as they were before the log."""
    for name in written.tables:
        table, base = f"`{SCHEMA}`.`{name}`", f"`{BASE}`.`{name}`"
        server.sql(
            f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} LIKE {base}; INSERT INTO {table} SELECT * FROM {base}"
        )


def check(source: Server, server: Server, written: Written) -> None:
    """Raises WrongSync."""
    for name in written.tables:
        if not workload.equal(source, server, name):
            raise WrongSync(f"the rows of {name} differ from the source's")


def pull(source: Server, written: Sequence[Written]) -> None:
    """Have the engine's relay pull all files. An app whose private log ends before today's location would wait."""
    first, last = written[0], written[-1]
    url, folder = meta_url(first.work).reveal(), first.work / "relay"
    migrate(url)
    spec = relay.relay_of(source, first.file, folder)
    process = RelayProcess.start(spec, {**os.environ, META_VARIABLE: url}, first.work / "relay.log")
    try:
        growth = relay.Growth(process.pid, lambda: not process.alive(), last.file.size, time.perf_counter())
        growth.watch(lambda: next(folder.glob(f"*.000001/{last.file.name}"), None))
    finally:
        process.stop()


# The run


def cases(servers: Sequence[Server], work: Path, options: argparse.Namespace) -> tuple[list[Case], dict[str, float]]:
    """Writes the logs and names the comparisons; gives what a start takes, too."""
    source, target, *replicas = servers
    logs = dict.fromkeys(name.removesuffix(OVERWRITE) for name in options.cases)
    written = {name: write(source, servers[1:], name, work, options.size) for name in logs}
    pull(source, list(written.values()))
    note("the start of an app")
    seconds, cpu = start_of(source, target, next(iter(written.values())))
    found = []
    for name in options.cases:
        one = replace(written[name.removesuffix(OVERWRITE)], safe=name.endswith(OVERWRITE))
        ours = Side(
            "incremental_sync",
            partial(spark_app, source, target, one, seconds),
            partial(refill, target, one),
            partial(check, source, target, one),
        )
        peers = [
            Side(
                "replica",
                partial(native_replica, replica, one),
                partial(pull_into, replica, source, one),
                partial(check, source, replica, one),
            )
            for replica in replicas
        ]
        found.append(Case(name, "changes", ours, *peers))
    return found, {"start_seconds": seconds, "start_cpu_seconds": cpu}


@contextmanager
def servers_for(target: Flavour) -> Iterator[Sequence[Server]]:
    """Source and target, and a replica where the target's flavour has one."""
    source: Flavour = "mysql" if target == "mysql" else "mariadb"
    flavours = {"source": source, "target": target, **({} if target == "tidb" else {"replica": source})}
    specs = [ServerSpec(name, flavour, OPTIONS[flavour], binlog=name == "source") for name, flavour in flavours.items()]
    with running_servers(specs) as servers:
        yield servers


def main() -> None:
    options = arguments(__doc__, repeats=3, cases=CASES, targets=TARGETS)
    with servers_for(options.target) as servers, tempfile.TemporaryDirectory(prefix="dm-bench-") as work:
        compared, start = cases(servers, Path(work), options)
        outcomes = measure(compared, options.repeats, servers)
        publish("sync", [*outcomes, *map(with_start, outcomes)], options, servers, "{}_vs_native", **start)


if __name__ == "__main__":
    main()
