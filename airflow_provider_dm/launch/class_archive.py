"""Spark's classes as a JVM keeps them in memory, in a file that later JVMs map (class data sharing, JEP 350).

A JVM with the archive need not read, verify and link classes: a third of the CPU time of a short app. The archive
is made once for each Java and each Spark, by a process of low priority; apps start without it until then. A JVM that
does not fit an archive ignores it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.user_cache import start_in_background, user_cache
from airflow_provider_dm.launch.preflight import find_java
from airflow_provider_dm.launch.secrets import inherited
from airflow_provider_dm.launch.spark_command import LOCAL_JAVA_OPTIONS, package_directory

KEPT: Final = 4
"""The number of archives that are kept, of about 70 MB each: those of the last versions of Java and Spark."""
_APP: Final = """
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster("local[2]").setAppName("archive").set("spark.ui.enabled", "false")
context = SparkContext(conf=conf.set("spark.scheduler.mode", "FAIR"))
shared = context.broadcast({"of": "a closure"})
assert context.parallelize([1, 2, 3], 2).map(lambda one: one + len(shared.value)).sum() == 9
assert sorted(context.range(3).mapPartitions(iter).collect()) == [0, 1, 2]
context.stop()
"""
"""A program that loads the classes of our apps: it runs tasks in Python, and broadcasts a value."""
_MODULE: Final = "airflow_provider_dm.launch.class_archive"
_NO_WARNINGS: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def class_options(java_home: Path) -> str:
    """Return the options of a JVM that uses the archive, in a shell's notation; none if there is no archive yet.

    If there is none, a process of low priority is started to make it. Raises NotInstalled without pyspark.
    """
    path = archive_path(java_home)
    if path is None:
        return ""
    if not path.exists():
        make_in_background(java_home)
        return ""
    return f"{shlex.quote(f'-XX:SharedArchiveFile={path}')} {_NO_WARNINGS}"


def archive_path(java_home: Path) -> Path | None:
    """Return the path of the archive of this Java and the installed pyspark; None if there is no cache directory.

    Raises NotInstalled without pyspark.
    """
    folder, spark_home = user_cache("classes"), package_directory("pyspark")
    if folder is None:
        return None
    files = (java_home / "lib" / "modules", spark_home / "jars")
    dates = [str(file.stat().st_mtime_ns) for file in files if file.exists()]
    parts = [LOCAL_JAVA_OPTIONS, str(java_home), str(spark_home), *dates]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return folder / f"{name}.jsa"


def make(java_home: Path) -> None:
    """Make the archive if it is missing, whole or not at all; return at once if another process makes it.

    Raises NotInstalled without pyspark, and CalledProcessError.
    """
    path = archive_path(java_home)
    if path is None:
        return
    with open(path.parent / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not path.exists():
            _make(path, java_home)


def _make(path: Path, java_home: Path) -> None:
    folder, spark_home = path.parent / "unfinished", package_directory("pyspark")
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir()
    script, fresh = folder / "app.py", folder / "archive"
    script.write_text(_APP)
    dump = f"-XX:ArchiveClassesAtExit={shlex.quote(str(fresh))}"
    environment = {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(spark_home),
        "SPARK_CONF_DIR": str(spark_home / "conf"),  # on the class path, which must have no directory with files
        "SPARK_SUBMIT_OPTS": f"{LOCAL_JAVA_OPTIONS} {dump} {_NO_WARNINGS}",
        "PYSPARK_PYTHON": sys.executable,
    }
    subprocess.run([spark_home / "bin" / "spark-submit", script], env=os.environ | environment, cwd=folder, check=True)
    fresh.rename(path)
    shutil.rmtree(folder)
    for old in sorted(path.parent.glob("*.jsa"), key=lambda archive: archive.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)


def make_in_background(java_home: Path) -> subprocess.Popen[bytes]:
    """Start a process of low priority that makes the archive if it is missing; it outlives this one."""
    code = f"import pathlib; from {_MODULE} import make; make(pathlib.Path({str(java_home)!r}))"
    return start_in_background(code, inherited())


if __name__ == "__main__":
    make(Path(sys.argv[1]) if sys.argv[1:] else find_java())
