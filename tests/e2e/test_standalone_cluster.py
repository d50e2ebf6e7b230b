"""A Spark cluster whose executor has neither Airflow, nor this package, nor pyspark installed.

Its Python has the distributions that docs/cluster.md lists; the engine comes as an archive.
"""

import os
import re
import shutil
import subprocess
import venv
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

import pytest

from airflow_provider_dm.engine.meta.records import SPARK_UI
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.launch.spark_command import LOCAL_JAVA_OPTIONS
from testbed import Server
from tests.conftest import FreshSchema
from tests.documents import ROOT
from tests.waiting import wait_for

from .dmctl import Dmctl, write_files
from .test_dmctl_incremental import incremental

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1200)]


class Cluster(NamedTuple):
    url: str
    folder: Path
    """The work directory of the worker."""


@pytest.fixture
def executor_python(tmp_path: Path) -> Path:
    """An environment with what executors need, and with nothing else."""
    listed = re.search(
        r"need its dependencies: (.*?), in\s+the driver's", (ROOT / "docs/cluster.md").read_text(), re.DOTALL
    )
    assert listed is not None
    venv.create(tmp_path / "executor", symlinks=True)
    (site,) = (tmp_path / "executor").glob("lib/python*/site-packages")
    wanted, there = re.findall(r"`([\w-]+)`", listed[1]), set()
    while wanted:
        name = wanted.pop().lower()
        try:
            found = distribution(name)
        except PackageNotFoundError:  # for another platform or Python
            continue
        if name not in there:
            there.add(name)
            for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
                (site / top).symlink_to(str(found.locate_file(top)))
            wanted += [re.split(r"[^\w.-]", one)[0] for one in found.requires or () if "extra ==" not in one]
    return tmp_path / "executor" / "bin" / "python"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    java = ("JAVA_HOME", "PATH", "DM_KERNEL_CACHE")
    environment = {name: os.environ[name] for name in java if name in os.environ} | {"SPARK_LOCAL_IP": "127.0.0.1"}
    environment["SPARK_DAEMON_JAVA_OPTS"] = LOCAL_JAVA_OPTIONS
    program, package = shutil.which("spark-class") or "spark-class", "org.apache.spark.deploy"
    folder = tmp_path / "worker"

    with ExitStack() as stack:

        def start(log: Path, *arguments: str) -> None:
            with log.open("wb") as output:
                process = subprocess.Popen([program, *arguments], env=environment, stdout=output, stderr=output)
            stack.callback(process.wait)
            stack.callback(process.terminate)

        ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        start(tmp_path / "master.log", f"{package}.master.Master", *ports)
        url = printed(tmp_path / "master.log", r"Starting Spark master at (spark://\S+)")
        sizes = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder))
        start(folder.with_suffix(".log"), f"{package}.worker.Worker", *ports, *sizes, url)
        printed(folder.with_suffix(".log"), "(Successfully registered)")
        yield Cluster(url, folder)


def printed(log: Path, pattern: str) -> str:
    """Wait until a log has a text, and return its group."""
    found = wait_for(lambda: re.search(pattern, log.read_text()), seconds=300, shows=log.read_text)
    assert found is not None
    return found[1]


def test_executors_need_neither_airflow_nor_this_package(
    cluster: Cluster,
    executor_python: Path,
    mysql_source: Server,
    mariadb_target: Server,
    fresh_schema: FreshSchema,
    tmp_path: Path,
) -> None:
    names = "[u.find_spec(n) for n in ('airflow', 'airflow_provider_dm', 'pyspark')]"
    there = subprocess.check_output(
        [executor_python, "-c", f"import importlib.util as u; print({names})"], cwd=tmp_path, env={}
    )
    assert there.decode().strip() == "[None, None, None]"
    schema = fresh_schema(mysql_source, mariadb_target)
    for server in (mysql_source, mariadb_target):
        server.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=schema)
    ((gtids,),) = mysql_source.sql("SELECT @@gtid_executed")
    mysql_source.sql("INSERT INTO t VALUES (1, 1), (2, 2)", database=schema)
    sources = {"mysql-01": mysql_source}
    files = write_files(tmp_path, target=mariadb_target, sources=sources, schemas=[schema], name=schema)
    incremental(files, f"{{binlog-gtid: '{gtids}'}}")
    conf = {"spark.pyspark.python": str(executor_python), "spark.ui.enabled": "true", "spark.ui.port": "0"}
    conf |= {f"spark.{side}.extraJavaOptions": LOCAL_JAVA_OPTIONS for side in ("driver", "executor")}
    words = [word for one in conf.items() for word in ("--spark-conf", "{}={}".format(*one))]
    dmctl = Dmctl(tmp_path / "work", {"SPARK_LOCAL_IP": "127.0.0.1"})

    ended = dmctl("run", *files.arguments, "--master", cluster.url, "--no-verify", *words)

    assert ended.code == 0, ended.err
    assert mariadb_target.sql("SELECT * FROM t ORDER BY id", database=schema) == [(1, 1), (2, 2)]
    with MetaStore.open(f"sqlite:///{dmctl.work / 'meta.db'}") as store:
        (run,) = store.list_runs(task=schema)
    assert run.progress[SPARK_UI].startswith("http://")  # the driver's, on every master
    assert len([*cluster.folder.glob("app-*")]) == 1
