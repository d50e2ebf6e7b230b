"""A whole Airflow of our own: API server with UI, scheduler, DAG processor and triggerer, on a port that was free.

    with running_airflow(AirflowSpec(home=tmp_path / "airflow", dags=Path("dags"))) as airflow:
        run = airflow.api.trigger("dm_example")
        assert airflow.api.wait_for_run("dm_example", run, seconds=300) == "success"

It is what `airflow standalone` runs (SQLite, LocalExecutor, SimpleAuthManager), with three differences. Nothing listens
on anything but 127.0.0.1. The login is known beforehand: `admin` and the password of the spec. And it ends whole:
`standalone` leaves children behind, so everything that runs with this `AIRFLOW_HOME` is ended, Spark drivers and relay
processes included (see `airflow_keeper`).

Settings lie in `<home>/airflow.cfg`, readable by the owner only: `AIRFLOW_HOME=<home> airflow …` works beside it.
Each component logs to `<home>/<component>.log`. Where `airflow-provider-dm` is not installed, as in a bare checkout,
its entry points are made visible through `<home>/site` (see `provider_metadata`).
The migrated database comes from the cache, which saves ten seconds and more for each Airflow.

Standard library only; named like the package `airflow`, which this module never imports."""

import base64
import configparser
import importlib.metadata
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from testbed import airflow_components, airflow_keeper, cache
from testbed.airflow_api import AirflowApi, ApiError
from testbed.ports import HOST, free_ports
from testbed.watched import watch

USER: Final = "admin"
ROOT: Final = Path(__file__).resolve().parents[2]
DISTRIBUTION: Final = "airflow-provider-dm"
START_SECONDS: Final = 480
COMPONENTS: Final = {
    "api-server": ["api-server"],
    "scheduler": ["scheduler", "--skip-serve-logs"],  # logs are read from the disk; the log server has a fixed port
    "dag-processor": ["dag-processor"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}

Settings = Mapping[str, Mapping[str, str]]


class AirflowStartFailed(RuntimeError):
    """A component ended at start, or did not become healthy. The message ends with its log."""


@dataclass(frozen=True)
class AirflowSpec:
    """The description of an Airflow to start. `home` must not hold an Airflow yet; `settings` (section -> option ->
    value) win over ours.
    """

    home: Path
    dags: Path
    settings: Settings = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    """More variables for every component, e.g. AIRFLOW_CONN_…; inherited by every task."""
    password: str = ""
    """The password of `admin`; drawn at random when empty."""
    parallelism: int = 8
    components: tuple[str, ...] = tuple(COMPONENTS)


@dataclass(eq=False)
class Airflow:
    """One running Airflow."""

    home: Path
    port: int
    password: str = field(repr=False)
    environment: dict[str, str] = field(repr=False)
    pids: dict[str, int]
    """Component -> pid of its first process."""

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def user(self) -> str:
        return USER

    @property
    def api(self) -> AirflowApi:
        found = self.__dict__.get("_api")
        if found is None:
            found = self.__dict__["_api"] = AirflowApi(self.url, USER, self.password)
        return found

    def cli(self, *arguments: str, timeout: float = 400) -> str:
        """Run `airflow ARGUMENTS…` in this home; returns its standard output. Raises CalledProcessError."""
        argv = [*_airflow(), *arguments]
        done = subprocess.run(argv, env=self.environment, check=True, capture_output=True, text=True, timeout=timeout)
        return done.stdout

    def log(self, component: str) -> Path:
        return self.home / f"{component}.log"

    def processes(self) -> list[int]:
        """List everything that runs with this home now: components, task processes, Spark drivers, relays."""
        return airflow_keeper.processes_of(self.home)

    def stop(self, *, term_seconds: float = airflow_keeper.TERM_SECONDS) -> None:
        """End all of it. Nothing that runs with this home is left; the folder with its logs stays."""
        airflow_keeper.end_processes_of(self.home, term_seconds=term_seconds)
        if (parent := self.__dict__.pop("_parent", None)) is not None:
            parent.wait()


@contextmanager
def running_airflow(spec: AirflowSpec) -> Iterator[Airflow]:
    """Run an Airflow for the length of a block; its folder stays."""
    airflow = start_airflow(spec)
    try:
        yield airflow
    finally:
        airflow.stop()


def start_airflow(spec: AirflowSpec, *, keep: bool = False) -> Airflow:
    """Start an Airflow; returns when every component is healthy. It ends with this process, unless `keep`: then
    `attach_airflow(home).stop()` ends it. Raises AirflowStartFailed.
    """
    home = spec.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    password = spec.password or secrets.token_urlsafe(12)
    environment = _environment(spec, home)
    _write_config(spec, home, port, password)
    _migrated_database(home, environment)
    if not keep:
        watch(home, airflow_keeper)
    parent, pids = _start(spec.components, home, environment)
    airflow = Airflow(home, port, password, environment, pids)
    airflow.__dict__["_parent"] = parent
    _private(home / "airflow.json", json.dumps({"port": port, "password": password, "pids": pids, "env": environment}))
    try:
        _wait_until_healthy(airflow)
    except BaseException:
        airflow.stop(term_seconds=2)
        raise
    return airflow


def attach_airflow(home: Path) -> Airflow:
    """Return the Airflow that some earlier process started in `home` with `keep`, running or not. Raises OSError."""
    known = json.loads((home.resolve() / "airflow.json").read_text())
    return Airflow(home.resolve(), known["port"], known["password"], known["env"], known["pids"])


def provider_metadata(folder: Path) -> Path | None:
    """Write entry points and version of this distribution, as an installer would, for a checkout that is not installed:
    put the folder on the path and Airflow finds the provider. None when it is installed.
    """
    # Every installer signs in the file INSTALLER; what we wrote ourselves, for this process, is not for its children.
    known = importlib.metadata.distributions(name=DISTRIBUTION)
    if any(one.read_text("INSTALLER") for one in known):
        return None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = folder / f"{DISTRIBUTION.replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


# Settings


def _environment(spec: AirflowSpec, home: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    site = provider_metadata(home / "site")
    paths = [str(ROOT), *([str(site)] if site else []), *filter(None, [inherited.get("PYTHONPATH")])]
    programs = [str(Path(sys.executable).parent), inherited.get("PATH", os.defpath)]
    return {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(paths),
        "PATH": os.pathsep.join(programs),  # spark-submit lies beside python
        "PYTHONUNBUFFERED": "1",
        "SPT_NOENV": "1",  # setproctitle would write over /proc/PID/environ, by which the keeper finds them all
        **spec.environment,
    }


def _write_config(spec: AirflowSpec, home: Path, port: int, password: str) -> None:
    ours = {
        "core": {
            "dags_folder": str(spec.dags.resolve()),
            "load_examples": "False",
            "executor": "LocalExecutor",
            "parallelism": str(spec.parallelism),
            "max_active_tasks_per_dag": str(spec.parallelism),
            "dags_are_paused_at_creation": "True",
            "test_connection": "Enabled",
            "fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "execution_api_server_url": f"http://{HOST}:{port}/execution/",
            "simple_auth_manager_users": f"{USER}:admin",
            "simple_auth_manager_passwords_file": str(home / "passwords.json"),
        },
        # A busy machine holds a lock of SQLite for more than its default of five seconds. A scheduler would end then.
        "database": {"sql_alchemy_conn": _database(home, seconds=300)},
        "workers": {"execution_api_timeout": "60"},
        "api": {
            "host": HOST,
            "port": str(port),
            "base_url": f"http://{HOST}:{port}",
            "workers": "1",
            "secret_key": secrets.token_hex(16),
            "expose_stacktrace": "True",
        },
        "api_auth": {"jwt_secret": secrets.token_hex(32)},
        # A file that has changed is read at once. To read the others again is most of what an idle Airflow does.
        "dag_processor": {"refresh_interval": "5", "min_file_process_interval": "600", "parsing_processes": "1"},
        "logging": {"base_log_folder": str(home / "logs"), "colored_console_log": "False"},
        "scheduler": {
            # A task whose process was killed is noticed after this long; Airflow's own default is five minutes.
            "task_instance_heartbeat_timeout": "30",
            "task_instance_heartbeat_timeout_detection_interval": "5",
            # To look for something to do each second is half of what an idle Airflow does.
            "scheduler_idle_sleep_time": "2",
        },
        "triggerer": {"default_capacity": "100"},
    }
    config = configparser.RawConfigParser()
    config.read_dict(ours)
    config.read_dict(spec.settings)
    with _private_file(home / "airflow.cfg") as file:
        config.write(file)
    _private(home / "passwords.json", json.dumps({USER: password}))


def _database(home: Path, *, seconds: int) -> str:
    """Return the URL of the database; `seconds`: how long a process waits for a lock."""
    return f"sqlite:///{home / 'airflow.db'}?timeout={seconds}"


def _migrated_database(home: Path, environment: Mapping[str, str]) -> None:
    """Copy a database that `airflow db migrate` has made once for this version of Airflow."""
    if (home / "airflow.db").exists():
        return

    def migrate(folder: Path) -> None:
        # The folder is renamed later and the file holds no path, so the copy works anywhere.
        where = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder / 'airflow.db'}"}
        scratch = Path(tempfile.mkdtemp(prefix="dm-airflow-migrate-"))
        argv = [*_airflow(), "db", "migrate"]
        env = {**environment, **where, "AIRFLOW_HOME": str(scratch), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
        done = subprocess.run(argv, env=env, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        shutil.rmtree(scratch, ignore_errors=True)
        if done.returncode != 0:
            raise AirflowStartFailed(f"`airflow db migrate` failed:\n{done.stdout[-4000:]}")

    template = cache.entry(f"airflow-db-{importlib.metadata.version('apache-airflow-core')}", migrate)
    for file in template.iterdir():
        shutil.copyfile(file, home / file.name)


def _private(path: Path, text: str) -> None:
    with _private_file(path) as file:
        file.write(text)


def _private_file(path: Path) -> IO[str]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w")


# Processes


def _airflow() -> list[str]:
    return [sys.executable, "-m", "airflow"]


def _start(
    components: Sequence[str], home: Path, environment: Mapping[str, str]
) -> "tuple[subprocess.Popen[bytes], dict[str, int]]":
    """Start the components; return their parent, and the pid of each."""
    # The API server waits for itself: Airflow 3.3.2 commits the audit log in its event loop, while the transaction of
    # another request that holds the lock waits for that loop to commit it. After this timeout one request fails.
    own = {airflow_components.API_DATABASE: _database(home, seconds=10)}
    commands = {name: COMPONENTS[name] for name in components}
    with open(home / "components.log", "ab") as log:
        parent = subprocess.Popen(
            [sys.executable, "-P", airflow_components.__file__, json.dumps(commands)],
            env={**environment, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=home,
            start_new_session=True,
        )
    assert parent.stdout is not None
    with parent.stdout as answer:
        pids = answer.read()
    if not pids:
        raise AirflowStartFailed(f"ended with {parent.wait()}:\n{_tail(home / 'components.log')}")
    return parent, json.loads(pids)


def _wait_until_healthy(airflow: Airflow) -> None:
    named = {"scheduler": "scheduler", "dag-processor": "dag_processor", "triggerer": "triggerer"}
    wanted = {"metadatabase", *(named[name] for name in airflow.pids if name in named)}
    deadline = time.monotonic() + START_SECONDS
    health: dict[str, str | None] = {}
    while time.monotonic() < deadline:
        for name, pid in airflow.pids.items():
            if not Path(f"/proc/{pid}").exists():
                raise AirflowStartFailed(f"{name} has ended:\n{_tail(airflow.log(name))}")
        try:
            health = airflow.api.health()
        except ApiError:
            health = {}
        if all(health.get(part) == "healthy" for part in wanted):
            return
        time.sleep(0.3)
    tails = "\n".join(f"--- {name}\n{_tail(airflow.log(name))}" for name in airflow.pids)
    raise AirflowStartFailed(f"not healthy after {START_SECONDS} s: {health}\n{tails}")


def _tail(path: Path, lines: int = 40) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return f"(no log: {error})"
