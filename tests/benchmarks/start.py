"""The time until a sync applies its first row: the real Spark app beside an empty PySpark app, with the same master.

Both are started by spark-submit. The relay has pulled the log before. The empty app makes an RDD of two partitions with
a lambda, prints its sum and ends. It has Spark's default options; the sync has those that it gives to a JVM.

- first_row_seconds: from spark-submit until a reader, who asks every 5 ms, sees the sync's first row in the target.
- empty_app_seconds: from spark-submit to the exit of the empty app; empty_result_seconds: until its sum is printed.
- first_row_vs_empty_app: the first divided by the second; first_row_vs_empty_result: by the third. Below 1 the sync is
  faster. All are medians.

CPU and memory are those of the whole process tree to its exit.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from airflow_provider_dm.launch.spark_command import SparkSettings, package_directory
from airflow_provider_dm.launch.submit import SparkApp
from testbed import Server
from tests.benchmarks import lag
from tests.benchmarks.harness import Case, Run, Side, arguments, measure, publish
from tests.benchmarks.processes import watched
from tests.benchmarks.sync import THREADS, Written, WrongSync, check, incremental_sync, pull, refill, servers_for

MASTER: Final = f"local[{THREADS},4]"
LOOK_SECONDS: Final = 0.005
EMPTY_APP: Final = """
from pyspark import SparkContext
with SparkContext() as context:
    print(context.parallelize(range(2), 2).map(lambda number: number).sum(), flush=True)
"""


def sync(source: Server, target: Server, written: Written) -> Run:
    job = incremental_sync(source, target, written, f"{written.file.name}:{written.end}")
    with tempfile.TemporaryDirectory(dir=written.work) as run_dir, target.connect() as reader:
        began = time.perf_counter()
        app = SparkApp.start(job, run_dir=Path(run_dir), settings=SparkSettings(master=MASTER))
        try:
            with watched(app.pid) as tree, reader.cursor() as cursor:
                while not cursor.execute(f"SELECT 1 FROM `{lag.SCHEMA}`.`{lag.NAME}` LIMIT 1"):
                    if app.poll() is not None:
                        raise WrongSync(f"the app ended without a row:\n{app.tail()}")
                    time.sleep(LOOK_SECONDS)
                seconds = time.perf_counter() - began
                app.wait()
        finally:
            app.stop()
    return Run(1, seconds, tree.cpu_seconds, tree.peak_bytes)


def empty_app(script: Path) -> Run:
    spark = package_directory("pyspark")
    argv = [str(spark / "bin" / "spark-submit"), "--master", MASTER, str(script)]
    environment = {**os.environ, "SPARK_HOME": str(spark), "PYSPARK_PYTHON": sys.executable}
    began = time.perf_counter()
    process = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    with process.stdout, watched(process.pid) as tree:
        printed = process.stdout.readline()
        result_seconds = time.perf_counter() - began
        process.wait()
    if printed != b"1\n":
        raise RuntimeError(f"the empty app printed {printed!r}")
    extra = {"result_seconds": result_seconds}
    return Run(1, time.perf_counter() - began, tree.cpu_seconds, tree.peak_bytes, extra)


def main() -> None:
    options = arguments(__doc__, repeats=5, cases=["first_row"])
    with servers_for("mariadb") as servers, tempfile.TemporaryDirectory(prefix="dm-bench-") as work:
        source, target, _ = servers
        written = lag.begin(source, (target,), Path(work))
        end = int(source.sql("SHOW BINARY LOGS")[-1][1])
        written = replace(written, file=replace(written.file, size=end), end=end)
        pull(source, [written])
        script = Path(work) / "empty_app.py"
        script.write_text(EMPTY_APP)
        ours = Side(
            "incremental_sync",
            partial(sync, source, target, written),
            partial(refill, target, written),
            partial(check, source, target, written),
        )
        case = Case("first_row", "starts", ours, Side("empty RDD app", partial(empty_app, script)))
        (outcome,) = measure([case], options.repeats, servers)
        mine, theirs = (outcome.runs[side.name] for side in case.sides)
        first, empty = (median(run.seconds for run in runs) for runs in (mine, theirs))
        result = median(run.extra["result_seconds"] for run in theirs)
        publish(
            "start",
            [outcome],
            options,
            servers,
            first_row_seconds=first,
            empty_app_seconds=empty,
            empty_result_seconds=result,
            first_row_vs_empty_app=first / empty,
            first_row_vs_empty_result=first / result,
        )


if __name__ == "__main__":
    main()
