"""The argv and environment of spark-submit: a pure function of the settings, the job file and the paths.

No secret is in argv or conf: both are world-readable in /proc, logged, and shown by Spark's UI. The app gets the path
of a job file and reads its secrets from a pipe.

Spark is always the one in the pyspark of the running interpreter, regardless of SPARK_HOME and PATH: driver, launcher
and workers must have the same version (`preflight` has checked that). With a cluster master the executors get the
engine as an archive; with a local master they import the launcher's packages.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import re
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Final

import airflow_provider_dm
from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.errors import NotInstalled

ENGINE_CONF: Final[Mapping[str, str]] = {
    # TCP loopback stalls 40 ms for every hop between JVM and Python; a socket file makes small jobs four times faster.
    "spark.python.unix.domain.socket.enabled": "true",
    # A speculative copy of a task is a second writer: fenced, but it would wait for the locks of the first.
    "spark.speculation": "false",
    # Shuffle files are freed by the driver's JVM at a garbage collection, which an idle loop never causes.
    "spark.cleaner.periodicGC.interval": "5min",
    "spark.log.level": "WARN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Set for the driver only: `spark.pyspark.python` would also apply to the driver, and an executor's Python may have
    # another path.
    "spark.pyspark.driver.python": sys.executable,
}
LOCAL_CONF: Final[Mapping[str, str]] = {
    # The host's own name may not resolve, and no other machine has to reach this driver.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
LOCAL_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms64m -Xmn16m"
"""The options of a JVM on this machine unless others are configured: the JVM only passes bytes on to Python. With its
default options it spends half of its time on compilation and garbage collection, and uses 130 MB for new objects before
the first collection; its live objects need 35 MB."""
_DEFAULT_OPTIONS: Final = "spark.driver.defaultJavaOptions"
_OPTION_KEYS: Final = (_DEFAULT_OPTIONS, "spark.driver.extraJavaOptions")
_OPTION_VARIABLES: Final = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_LAUNCHER_OPTIONS: Final = "SPARK_LAUNCHER_OPTS"
"""The options of the JVM that only prints the command line of the main JVM."""
TASK_ATTEMPTS: Final = 4
"""`local[N]` never retries a task; `local[N,4]` behaves as a cluster does."""
_LOCAL: Final = re.compile(r"local\[(?P<cores>\*|\d+)\]")
_ARCHIVE_DATE: Final = (1980, 1, 1, 0, 0, 0)


def spark_app_missing(app: str, searched: str) -> NotInstalled:
    return NotInstalled(
        f"the Spark app {app} was not found ({searched}).",
        "The distribution airflow-provider-dm contains it; install it again.",
    )


@dataclass(frozen=True)
class SparkSettings:
    """Settings of Spark. `master` None: this machine, all cores that this process may use.

    `driver_memory`: in Spark's notation of sizes. `conf` overrides all other settings; it must not contain secrets.
    """

    master: str | None = None
    driver_memory: str = "1g"
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def resolved_master(self) -> str:
        """The master; a local one gives a failed Spark task further attempts, as a cluster does."""
        master = self.master or f"local[{_cores()}]"
        match = _LOCAL.fullmatch(master)
        return f"local[{match['cores']},{TASK_ATTEMPTS}]" if match else master

    @property
    def is_local(self) -> bool:
        """True if tasks run in the driver's own process: `local-cluster[…]` is a cluster."""
        return self.resolved_master == "local" or self.resolved_master.startswith("local[")

    @property
    def has_ui(self) -> bool:
        """True if the user has enabled Spark's web UI, which is disabled by default."""
        return self.conf.get("spark.ui.enabled", "").lower() == "true"


@dataclass(frozen=True)
class Command:
    """A command to execute. `environment`: variables added to the launcher's own."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    script: Path


def spark_submit_command(
    spec: JobSpec,
    *,
    script: Path,
    job_file: Path,
    settings: SparkSettings,
    java_home: Path,
    java_options: str,
    environ: Mapping[str, str],
) -> Command:
    """Return the command that runs `script` on `spec`, which is stored in `job_file`.

    For a cluster master the engine's archive is written beside the job file. `java_options`: the default options of the
    driver's JVM. `environ`: the environment that the app inherits. Raises NotInstalled if Spark itself is not found.
    """
    spark_home = package_directory("pyspark")
    archive = () if settings.is_local else ("--py-files", str(engine_archive(job_file.parent / "engine.zip")))
    argv = (
        str(spark_home / "bin" / "spark-submit"),
        *("--master", settings.resolved_master),
        *("--deploy-mode", "client"),
        *("--name", f"dm-{spec.task.name}-{spec.app}"),
        *("--driver-memory", settings.driver_memory),
        *archive,
        *(argument for item in spark_conf(settings, java_options).items() for argument in ("--conf", "=".join(item))),
        str(script),
        str(job_file),
    )
    environment = {
        "SPARK_HOME": str(spark_home),
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(_python_path(environ.get("PYTHONPATH", ""))),
        "PYTHONUNBUFFERED": "1",
    }
    if java_options and _LAUNCHER_OPTIONS not in environ:
        environment[_LAUNCHER_OPTIONS] = LOCAL_JAVA_OPTIONS
    return Command(argv, environment, script)


def spark_conf(settings: SparkSettings, java_options: str = "") -> dict[str, str]:
    """Return Spark's configuration, name -> value, the user's last. `java_options`: those of the driver's JVM."""
    local = LOCAL_CONF if settings.is_local else {}
    java = {_DEFAULT_OPTIONS: java_options} if java_options else {}
    return {**ENGINE_CONF, **local, **java, **settings.conf}


def local_java_options(settings: SparkSettings, environ: Mapping[str, str]) -> str:
    """Return the default options of the JVM: none on a cluster, and none if the user has configured options.

    They are not merged with the user's, as a JVM with two garbage collectors does not start. The user's options may be
    in the settings' `conf`, in Spark's own defaults file, or in the environment. Raises NotInstalled without pyspark.
    """
    if not settings.is_local or any(environ.get(name) for name in _OPTION_VARIABLES):
        return ""
    if any(key in settings.conf for key in _OPTION_KEYS):
        return ""
    try:
        folder = Path(environ.get("SPARK_CONF_DIR") or package_directory("pyspark") / "conf")
        defaults = (folder / "spark-defaults.conf").read_text(encoding="utf-8", errors="replace")
    except OSError:
        defaults = ""
    return "" if any(line.strip().startswith(_OPTION_KEYS) for line in defaults.splitlines()) else LOCAL_JAVA_OPTIONS


def app_script(app: str) -> Path:
    """Return the path of `spark_apps/<app>.py` in this distribution. Raises NotInstalled."""
    script = _apps_directory() / f"{app}.py"
    if not script.is_file():
        raise spark_app_missing(app, str(script))
    return script


def _apps_directory() -> Path:
    # Beside this package first: another distribution may have a package of this name elsewhere on the path.
    beside = _engine_root() / "spark_apps"
    return beside if beside.is_dir() else package_directory("spark_apps")


# Packages for the child


def engine_archive(path: Path) -> Path:
    """Write the engine and the apps as an archive for `--py-files`, with equal bytes for equal files, for caches.

    It contains each source and its compiled form. Without compiled files every worker would compile its imports, which
    doubles their time, as Python cannot store them in an archive. A worker with another Python version uses the source.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, file in sorted(_archive_members()):
            content = file.read_bytes()
            _add(archive, name, content)
            if name.endswith(".py"):
                _add(archive, f"{name}c", compiled_module(name, content))
    return path


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _ARCHIVE_DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)


def compiled_module(name: str, source: bytes) -> bytes:
    """Return a module's .pyc, which Python uses without comparing it with the source's date (PEP 552)."""
    code = compile(source, name, "exec", dont_inherit=True)
    flags = (1).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + flags + importlib.util.source_hash(source) + _marshalled(code)


def _marshalled(code: CodeType) -> bytes:
    try:
        return marshal.dumps(code, 2)  # the newest format whose bytes do not depend on the process
    except ValueError:
        return marshal.dumps(code)  # Python 3.14 has constants that older formats lack


def _archive_members() -> Iterator[tuple[str, Path]]:
    """Yield (name in the archive, file): the engine and the apps, not the Airflow layer."""
    package = _engine_root() / "airflow_provider_dm"
    yield "airflow_provider_dm/__init__.py", package / "__init__.py"
    apps = _apps_directory()
    for folder, base in ((package / "engine", _engine_root()), (apps, apps.parent)):
        for file in folder.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(base).as_posix(), file


def _python_path(inherited: str) -> Iterator[str]:
    """Yield the paths for the child, this distribution first, unless every interpreter finds it."""
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    ours = dict.fromkeys((_engine_root(), _apps_directory().parent))
    wanted = [str(root) for root in ours if root not in installed]
    yield from wanted
    yield from (part for part in inherited.split(os.pathsep) if part and part not in wanted)


def _engine_root() -> Path:
    return Path(airflow_provider_dm.__file__).resolve().parent.parent


def package_directory(name: str) -> Path:
    """Return the directory of a package without importing it. Raises NotInstalled."""
    spec = importlib.util.find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        raise spark_app_missing(name, "no such package")
    return Path(places[0]).resolve()


def _cores() -> int:
    """Count the cores that this process may use: a container may be allowed fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
