"""JVMs that live for seconds: a test run starts some ninety. What they compute is the same as anywhere.

    python -m tests.short_jvms FILE      make the archive of Spark's classes, unless it is there; `docker/local` does it

They get the options that `launch` gives a JVM on one machine, also where a test starts Spark by itself, and Spark's
classes as a JVM keeps them in memory, from a file: one that maps it need not read, check and link them. A JVM that the
file does not fit goes on without it. Both come by Spark's own variables, which every Spark of a test session inherits;
benchmarks know nothing of them. CPU time of an app that does next to nothing, on two cores: 8.5 s without, 5.3 s with
the options, a third less with the archive as well.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from airflow_provider_dm.launch.spark_command import LOCAL_JAVA_OPTIONS

VARIABLES: Final = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
"""Options of an app's JVM, and of the one that only prints its command line."""
ARCHIVE: Final = "DM_SPARK_ARCHIVE"
"""Where the archive lies."""
APP: Final = """
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster("local[2]").setAppName("archive").set("spark.ui.enabled", "false")
context = SparkContext(conf=conf.set("spark.scheduler.mode", "FAIR"))
shared = context.broadcast({"of": "a closure"})
assert context.parallelize([1, 2, 3], 2).map(lambda one: one + len(shared.value)).sum() == 9
assert sorted(context.range(3).mapPartitions(iter).collect()) == [0, 1, 2]
context.stop()
"""
"""What our apps ask of a JVM: tasks in Python, and a value that they share."""


def use() -> None:
    """Use options and archive from now on, here and in what starts from here, unless somebody has set other options."""
    archive = os.environ.get(ARCHIVE)
    options = f"{LOCAL_JAVA_OPTIONS} -XX:SharedArchiveFile={archive}" if archive else LOCAL_JAVA_OPTIONS
    for name, chosen in zip(VARIABLES, (options, LOCAL_JAVA_OPTIONS), strict=True):
        os.environ.setdefault(name, chosen)


def make_archive(path: Path) -> None:
    """Make the archive, whole or not at all. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        script, fresh = Path(folder, "app.py"), Path(folder, "archive")
        script.write_text(APP)
        options = f"{LOCAL_JAVA_OPTIONS} -XX:ArchiveClassesAtExit={fresh} -Xlog:cds=off -Xlog:cds+dynamic=off"
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": options}
        subprocess.run(["spark-submit", str(script)], env=environment, cwd=folder, check=True)
        fresh.rename(path)


if __name__ == "__main__":
    wanted = Path(sys.argv[1])
    if not wanted.exists():
        make_archive(wanted)
