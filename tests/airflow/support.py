"""An Airflow of our own as tests need it: its processes, its users, a task for its DAGs."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from playwright.sync_api import Browser, BrowserContext, Page, expect

from airflow_provider_dm.engine.meta.store import MetaStore
from testbed import Server
from testbed.airflow import Airflow
from testbed.airflow_api import AirflowApi
from tests import waiting

PAGE_MILLISECONDS = 180_000
"""The longest time for a page to show something, on a busy machine."""


def chromium() -> str | None:
    """Return the path of a chromium, if there is one. Its headless shell takes less processor time."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


def context(**names: Any) -> Any:
    """Return what an operator's `execute` takes, where no Airflow runs it. `names`: those of the task instance."""
    return {"ti": SimpleNamespace(**names, xcom_push=lambda **_: None)}


def arguments(pid: int) -> bytes:
    """The command line of a process; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Watch:
    """A block's look at all processes of an Airflow, five times a second. `seen`: their command lines; `exposed`: those
    in whose command line or environment a text is."""

    def __init__(self, airflow: Airflow, text: str) -> None:
        self.seen: set[bytes] = set()
        self.exposed: set[bytes] = set()
        self._airflow, self._text, self._ended = airflow, text.encode(), threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.2):
            for pid in self._airflow.processes():
                command = arguments(pid)
                self.seen.add(command)
                with suppress(OSError):
                    if self._text in command or self._text in Path(f"/proc/{pid}/environ").read_bytes():
                        self.exposed.add(command)


def running(airflow: Airflow, what: bytes) -> list[int]:
    """Pids of this Airflow's processes with `what` in their command line."""
    return [pid for pid in airflow.processes() if what in arguments(pid)]


RunDag = Callable[..., Any]
Define = Callable[..., None]


def states(run: Any) -> dict[str, str]:
    """Return the state of each task of a run of `dag.test()`."""
    return {ti.task_id: ti.state for ti in run.get_task_instances()}


wait_for = partial(waiting.wait_for, every=0.6)  # to ask Airflow costs it 15 ms of a processor


def files_with(text: str, root: Path) -> list[Path]:
    """Return the files with a text, but for relay logs: the statement that created the account is in them."""
    found = []
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and "relay" not in path.relative_to(root).parts:
            with suppress(FileNotFoundError):  # of what runs on, some are there for a moment
                found += [path] if text.encode() in path.read_bytes() else []
    return found


def restart_triggerer(airflow: Airflow) -> None:
    """End it as an operating system does, and start another; the one Airflow of this session continues with that."""
    old = airflow.pids["triggerer"]
    os.kill(old, signal.SIGTERM)
    wait_for(lambda: not arguments(old))
    with open(airflow.log("triggerer"), "ab") as log:
        new = subprocess.Popen(
            [sys.executable, "-m", "airflow", "triggerer", "--skip-serve-logs"],
            env=airflow.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=airflow.home,
            start_new_session=True,
        )
    airflow.pids["triggerer"] = new.pid


def later(seconds: float, store: MetaStore, do: Callable[..., None], **parts: Any) -> threading.Timer:
    """Call `do(store, **parts)` after that time in another thread, beside a `dag.test()`, and close the store.

    The caller opens it: `dag.test()` has one variable for what tasks ask Airflow, which a second thread would take from
    a task.
    """

    def run() -> None:
        with store:
            do(store, **parts)

    timer = threading.Timer(seconds, run)
    timer.start()
    return timer


def token_of(airflow: Airflow, user: str) -> str:
    """Return a token of a user of Airflow's simple auth manager."""
    password = json.loads((airflow.home / "passwords.json").read_text())[user]
    return AirflowApi(airflow.url, user, password).token()


def log_in(browser: Browser, airflow: Airflow, user: str, **options: Any) -> BrowserContext:
    """Return a context of the browser with the session cookie of a user, as Airflow's login page sets it."""
    context = browser.new_context(locale="en-US", **options)
    context.add_cookies([{"name": "_token", "value": token_of(airflow, user), "url": airflow.url}])
    context.set_default_timeout(PAGE_MILLISECONDS)
    expect.set_options(timeout=PAGE_MILLISECONDS)
    return context


def trigger(page: Page, airflow: Airflow, dag: str, **params: str) -> str:
    """Fill in the form of a DAG's Params, press Trigger and return the run.

    The page is empty afterwards: an unattended page of a run takes a third of a processor.
    """
    airflow.api.wait_for_dag(dag)
    page.goto(f"{airflow.url}/dags/{dag}")
    page.get_by_role("button", name=re.compile("^Trigger")).first.click()
    dialog = page.get_by_role("dialog")
    for name, value in params.items():
        dialog.locator(f"#element_{name}").fill(value)
    dialog.get_by_role("button", name="Trigger", exact=True).click()
    page.wait_for_url(re.compile("/runs/"))
    page.goto("about:blank")
    (run, *_) = airflow.api.call("GET", f"/dags/{dag}/dagRuns?run_type=manual")["dag_runs"]
    return str(run["dag_run_id"])


@contextmanager
def connected(airflow: Airflow, servers: Mapping[str, Server], password: str, schema: str) -> Iterator[None]:
    """Connections to servers, by their ids, and to a Spark; what a task makes of `schema` is dropped at the end."""
    login = f"user_of_{schema}"
    for conn_id, server in servers.items():
        server.create_user(login, password)
        where = {"host": server.host, "port": server.port, "login": login, "password": password}
        airflow.api.put_connection(conn_id, conn_type="dm_database", **where)
    airflow.api.put_connection("spark_default", conn_type="spark", host="local[1]")
    yield
    for server in servers.values():
        server.sql(f"DROP DATABASE IF EXISTS {schema}; DROP DATABASE IF EXISTS {schema}_meta")


def sync_task(airflow: Airflow, source: Server, *, name: str, source_id: str, schema: str) -> str:
    """Write a task file for a sync of one schema, from the end of the source's log on; return its path.

    The tables of the source are as empty as the target's.
    """
    file, position = source.log_end()
    task = {
        "name": name,
        "task-mode": "incremental",
        "meta-schema": f"{schema}_meta",
        "mysql-instances": [
            {"source-id": source_id, "block-allow-list": "ours", "meta": {"binlog-name": file, "binlog-pos": position}}
        ],
        "block-allow-list": {"ours": {"do-dbs": [schema]}},
    }
    path = airflow.home / f"{name}.yaml"
    path.write_text(yaml.safe_dump(task))
    return str(path)
