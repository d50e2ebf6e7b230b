"""The argv and environment of spark-submit: a pure function of the settings, the job file and where things lie.

No secret is in argv or conf: both are world-readable in /proc, logged, and shown by Spark's UI. The app gets the path
of a job file and finds its secrets in environment variables.

Spark is the one inside the pyspark of the running interpreter, whatever SPARK_HOME or PATH say: driver, launcher and
workers must be one version (`preflight` has checked that it is one). With a cluster master the executors get the
engine as an archive; with a local master they import what the launcher imports.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from typing import ClassVar, Final

import airflow_provider_dm
from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.errors import DmError

ENGINE_CONF: Final[Mapping[str, str]] = {
    # TCP loopback stalls 40 ms for every hop between JVM and Python; a socket file makes small jobs four times faster.
    "spark.python.unix.domain.socket.enabled": "true",
    # A speculative copy of a task is a second writer: fenced, but it would wait for the locks of the first.
    "spark.speculation": "false",
    # Shuffle files are freed when the driver's JVM collects, which an idle loop never does by itself.
    "spark.cleaner.periodicGC.interval": "5min",
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL_CONF: Final[Mapping[str, str]] = {
    # The host's own name may not resolve, and nobody else has to reach this driver.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
TASK_ATTEMPTS: Final = 4
"""`local[N]` never retries a task; `local[N,4]` behaves as a cluster does."""
_ARCHIVE_DATE: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(eq=False)
class SparkAppMissing(DmError):
    """The script of an app is not where its package should be."""

    app: str
    looked_at: str

    code: ClassVar[str] = "DM-9012"
    what: ClassVar[str] = "the Spark app {app} was not found ({looked_at})."
    hint: ClassVar[str] = "The distribution airflow-provider-dm contains it; install it again."


@dataclass(frozen=True)
class SparkSettings:
    """How Spark is run. `master` None: this machine, all cores that this process may use.

    `driver_memory` as Spark writes sizes. `conf` wins over everything of ours; it must hold no secret.
    """

    master: str | None = None
    driver_memory: str = "1g"
    ui: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def resolved_master(self) -> str:
        return self.master or f"local[{_cores()},{TASK_ATTEMPTS}]"

    @property
    def is_local(self) -> bool:
        """Whether tasks run in the driver's own process: `local-cluster[…]` is a cluster."""
        return self.resolved_master == "local" or self.resolved_master.startswith("local[")


@dataclass(frozen=True)
class Command:
    """What to execute. `environment` is added to the launcher's own."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    script: Path


def spark_submit_command(
    spec: JobSpec, *, script: Path, job_file: Path, settings: SparkSettings, java_home: Path, python_path: str = ""
) -> Command:
    """The command that runs `script` on `spec`, which lies in `job_file`.

    For a cluster master the engine's archive is written beside the job file. `python_path` is the PYTHONPATH that the
    app inherits. Raises SparkAppMissing when Spark itself is not found.
    """
    spark_home = _package_directory("pyspark")
    archive = () if settings.is_local else ("--py-files", str(engine_archive(job_file.parent / "engine.zip")))
    argv = (
        str(spark_home / "bin" / "spark-submit"),
        *("--master", settings.resolved_master),
        *("--deploy-mode", "client"),
        *("--name", f"dm-{spec.task.name}-{spec.app}"),
        *("--driver-memory", settings.driver_memory),
        *archive,
        *(argument for item in spark_conf(settings).items() for argument in ("--conf", "=".join(item))),
        str(script),
        str(job_file),
    )
    environment = {
        "SPARK_HOME": str(spark_home),
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(_python_path(python_path)),
        "PYTHONUNBUFFERED": "1",
    }
    return Command(argv, environment, script)


def spark_conf(settings: SparkSettings) -> dict[str, str]:
    """Name -> value, the user's last."""
    local = LOCAL_CONF if settings.is_local else {}
    return {**ENGINE_CONF, **local, "spark.ui.enabled": str(settings.ui).lower(), **settings.conf}


def app_script(app: str) -> Path:
    """`spark_apps/<app>.py`: the package that is installed with ours. Raises SparkAppMissing."""
    script = _apps_directory() / f"{app}.py"
    if not script.is_file():
        raise SparkAppMissing(app, str(script))
    return script


def _apps_directory() -> Path:
    # Beside our own package first: another distribution may own a package of this name elsewhere on the path.
    beside = _engine_root() / "spark_apps"
    return beside if beside.is_dir() else _package_directory("spark_apps")


# What the child can import


def engine_archive(path: Path) -> Path:
    """The engine and the apps as one archive for `--py-files`: the same bytes for the same files, so caches hold."""
    members = sorted(_archive_members())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, file in members:
            entry = zipfile.ZipInfo(name, _ARCHIVE_DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes())
    return path


def _archive_members() -> Iterator[tuple[str, Path]]:
    """(name in the archive, file): the engine, the apps, and nothing of the Airflow floor."""
    package = _engine_root() / "airflow_provider_dm"
    yield "airflow_provider_dm/__init__.py", package / "__init__.py"
    apps = _apps_directory()
    for folder, base in ((package / "engine", _engine_root()), (apps, apps.parent)):
        for file in folder.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(base).as_posix(), file


def _python_path(inherited: str) -> Iterator[str]:
    """The launcher's own packages first, unless they are installed where every interpreter looks anyway."""
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    ours = dict.fromkeys((_engine_root(), _apps_directory().parent))
    wanted = [str(root) for root in ours if root not in installed]
    yield from wanted
    yield from (part for part in inherited.split(os.pathsep) if part and part not in wanted)


def _engine_root() -> Path:
    return Path(airflow_provider_dm.__file__).resolve().parent.parent


def _package_directory(name: str) -> Path:
    """Where a package lies, without importing it. Raises SparkAppMissing."""
    found = util.find_spec(name)
    places = list(found.submodule_search_locations or ()) if found is not None else []
    if not places:
        raise SparkAppMissing(name, "no such package")
    return Path(places[0]).resolve()


def _cores() -> int:
    """Those that this process may run on: a container may be allowed fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
