"""Airflow's REST API as the demo and the tests need it: runs, task instances, logs, XComs, connections.

Standard library only. A token is fetched at the first call and again when it is refused. Answers are the API's own
JSON; only what is asked for often has a type."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Json = Any
FINISHED: Final = frozenset({"success", "failed"})
TIMEOUT_SECONDS: Final = 300
RETRIES: Final = 3
LOCKED: Final = "database is locked"
"""SQLite's error, which a 500's body has by the setting `expose_stacktrace` of `testbed.airflow`."""


class ApiError(RuntimeError):
    """The API answered with an error. `status` is the HTTP status, or 0 if no server answered."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status} {body[:2000]}")
        self.status = status
        self.locked = LOCKED in body


class RunTimeout(RuntimeError):
    """A DAG run did not end in time. The message has the state of each of its tasks."""


@dataclass(frozen=True)
class TaskState:
    """One task instance. `state` is None while it is not scheduled."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    hostname: str | None
    pid: int | None
    """The task's supervised process, where Airflow tells it."""
    started: str | None
    ended: str | None


@dataclass
class AirflowApi:
    """The REST API at `url` (without trailing slash), as one user."""

    url: str
    user: str
    password: str = field(repr=False)
    _token: str | None = field(default=None, repr=False)

    # Any call

    def call(self, method: str, path: str, body: Json = None) -> Json:
        """Call the API: `call("GET", "/dags")`; paths are below /api/v2. None where the answer is empty. Raises
        ApiError.

        A request is repeated after 401, and if SQLite's lock was held: then its transaction was rolled back.
        """
        for _ in range(RETRIES):
            try:
                return self._send(method, f"/api/v2{path}", body, self.token())
            except ApiError as error:
                if error.status == 401:
                    self._token = None
                elif not error.locked:
                    raise
        return self._send(method, f"/api/v2{path}", body, self.token())

    def health(self) -> dict[str, str | None]:
        """Return component -> "healthy", "unhealthy" or None. Needs no login. Raises ApiError if no server answers."""
        answer = self._send("GET", "/api/v2/monitor/health", None, None)
        return {name: part["status"] for name, part in answer.items() if part}

    # DAGs and runs

    def wait_for_dag(self, dag_id: str, *, seconds: float = 240) -> None:
        """Wait until the DAG processor has read its file. Raises RunTimeout with the import errors, if any."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.call("GET", f"/dags/{_quoted(dag_id)}")
                return
            except ApiError as error:
                if error.status != 404:
                    raise
            if time.monotonic() > deadline:
                raise RunTimeout(f"DAG {dag_id} did not appear. Import errors: {self.import_errors()}")
            time.sleep(0.5)

    def import_errors(self) -> dict[str, str]:
        """Return DAG file -> traceback."""
        found = self.call("GET", "/importErrors")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in found}

    def pause(self, dag_id: str, *, paused: bool = True) -> None:
        """Pause the DAG, or let it go on."""
        self.call("PATCH", f"/dags/{_quoted(dag_id)}", {"is_paused": paused})

    def trigger(self, dag_id: str, conf: Mapping[str, Json] | None = None, *, paused: bool = False) -> str:
        """Start a run, unpausing the DAG; gives its run id. `paused`: it begins when the DAG goes on (`pause`)."""
        self.wait_for_dag(dag_id)
        self.pause(dag_id, paused=paused)
        answer = self.call("POST", f"/dags/{_quoted(dag_id)}/dagRuns", {"logical_date": None, "conf": dict(conf or {})})
        run_id: str = answer["dag_run_id"]
        return run_id

    def run_state(self, dag_id: str, run_id: str) -> str:
        state: str = self.call("GET", _run(dag_id, run_id))["state"]
        return state

    def wait_for_run(
        self,
        dag_id: str,
        run_id: str,
        *,
        seconds: float,
        each_poll: Callable[[list[TaskState]], None] | None = None,
        poll_seconds: float = 1.0,
    ) -> str:
        """Wait until the run has ended: "success" or "failed". `each_poll` sees the tasks. Raises RunTimeout."""
        deadline = time.monotonic() + seconds
        while True:
            if each_poll is not None:
                each_poll(self.tasks(dag_id, run_id))
            state = self.run_state(dag_id, run_id)
            if state in FINISHED:
                return state
            if time.monotonic() > deadline:
                tasks = self.tasks(dag_id, run_id)
                raise RunTimeout(f"run {run_id} of {dag_id} did not end in {seconds} s: {tasks}")
            time.sleep(poll_seconds)

    def tasks(self, dag_id: str, run_id: str) -> list[TaskState]:
        found = self.call("GET", f"{_run(dag_id, run_id)}/taskInstances?limit=1000")["task_instances"]
        return [
            TaskState(
                task_id=one["task_id"],
                map_index=one["map_index"],
                state=one["state"],
                try_number=one["try_number"],
                hostname=one["hostname"],
                pid=one["pid"],
                started=one["start_date"],
                ended=one["end_date"],
            )
            for one in found
        ]

    def task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> TaskState:
        """Return the state of one task. Raises KeyError for a task that the run does not have."""
        for one in self.tasks(dag_id, run_id):
            if (one.task_id, one.map_index) == (task_id, map_index):
                return one
        raise KeyError(task_id)

    def wait_for_task(
        self, dag_id: str, run_id: str, task_id: str, *, states: tuple[str, ...] = ("running",), seconds: float
    ) -> TaskState:
        """Wait until the task is in one of the states. Raises RunTimeout."""
        deadline = time.monotonic() + seconds
        while (one := self.task(dag_id, run_id, task_id)).state not in states:
            if time.monotonic() > deadline:
                raise RunTimeout(f"{task_id} is {one.state}, not {' or '.join(states)}, after {seconds} s")
            time.sleep(1)
        return one

    def set_task_state(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Set a task's state as a person does in the UI: `failed` on a running task ends it (its `on_kill` runs)."""
        self.call("PATCH", f"{_run(dag_id, run_id)}/taskInstances/{_quoted(task_id)}", {"new_state": state})

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear a task as a person does in the UI: it runs again, in the same run."""
        what = {"dag_run_id": run_id, "task_ids": [task_id], "only_failed": False, "reset_dag_runs": True}
        self.call("POST", f"/dags/{_quoted(dag_id)}/clearTaskInstances", {"dry_run": False, **what})

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1, map_index: int = -1) -> str:
        """Return the log of one attempt as text, one event a line."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{_quoted(task_id)}/logs/{try_number}"
        answer = self.call("GET", f"{path}?full_content=true&map_index={map_index}")
        content = answer["content"]
        if isinstance(content, str):
            return content
        return "\n".join(json.dumps(event) if isinstance(event, dict) else str(event) for event in content)

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1) -> Json:
        """Return what a task pushed, as JSON. Raises ApiError (404) where it pushed nothing."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{_quoted(task_id)}/xcomEntries/{_quoted(key)}"
        return self.call("GET", f"{path}?map_index={map_index}&deserialize=true")["value"]

    # Connections

    def put_connection(self, connection_id: str, **parts: Json) -> None:
        """Create a connection, anew when it exists. Parts: conn_type, host, port, login, password, schema, extra (a
        mapping).
        """
        try:
            self.call("DELETE", f"/connections/{_quoted(connection_id)}")
        except ApiError as error:
            if error.status != 404:
                raise
        self.call("POST", "/connections", _connection(connection_id, parts))

    def test_connection(self, **parts: Json) -> tuple[bool, str]:
        """Do what the Test button does, for a connection that need not be stored."""
        answer = self.call("POST", "/connections/test", _connection("tested_by_harness", parts))
        return answer["status"], answer["message"]

    # How

    def token(self) -> str:
        """Return the token of this user, as a bearer. Raises ApiError."""
        if self._token is None:
            answer = self._send("POST", "/auth/token", {"username": self.user, "password": self.password}, None)
            self._token = answer["access_token"]
        assert self._token is not None
        return self._token

    def _send(self, method: str, path: str, body: Json, token: str | None) -> Json:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                raw = response.read()
        except urllib.error.HTTPError as error:
            raise ApiError(method, path, error.code, error.read().decode(errors="replace")) from None
        except OSError as error:
            raise ApiError(method, path, 0, str(error)) from None
        return json.loads(raw) if raw else None


def _connection(connection_id: str, parts: Mapping[str, Json]) -> Json:
    extra = parts.get("extra")
    encoded = {"extra": json.dumps(extra)} if isinstance(extra, Mapping) else {}
    return {"connection_id": connection_id, **parts, **encoded}


def _run(dag_id: str, run_id: str) -> str:
    return f"/dags/{_quoted(dag_id)}/dagRuns/{_quoted(run_id)}"


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
