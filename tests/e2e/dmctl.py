"""A real `dmctl` on real servers: the files that DM's users have, the command as they type it, plain comparisons."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from airflow_provider_dm.cli.main import main
from testbed import Server

ROOT = Path(__file__).resolve().parents[2]
SYSTEM_SCHEMAS = ("mysql", "sys", "information_schema", "performance_schema")


@dataclass(frozen=True)
class Ended:
    """The end of a command."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        found: dict[str, Any] = json.loads(self.out)
        return found


@dataclass
class Dmctl:
    """The command with a work directory of its own."""

    work: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    def argv(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "airflow_provider_dm.cli.main", *map(str, arguments)]

    def environment(self) -> dict[str, str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("DM_", "AIRFLOW_"))}
        return {**inherited, "PYTHONPATH": str(ROOT), "DM_WORK_DIR": str(self.work), **self.environ}

    def __call__(self, *arguments: object, seconds: float = 900) -> Ended:
        done = subprocess.run(
            self.argv(*arguments),
            check=False,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def here(self, *arguments: object) -> Ended:
        """Run a short command in this process: an interpreter of its own takes longer than the command."""
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.dict(os.environ, self.environment(), clear=True), redirect_stdout(out), redirect_stderr(err):
            code = main([str(one) for one in arguments])
        return Ended(code, out.getvalue(), err.getvalue())

    @contextmanager
    def started(self, *arguments: object) -> Iterator[subprocess.Popen[str]]:
        """The command in the background; killed at the end if it still runs."""
        process = subprocess.Popen(
            self.argv(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


@dataclass(frozen=True)
class Files:
    """task.yaml and source.yaml files of one task."""

    task: Path
    sources: tuple[Path, ...]

    @property
    def arguments(self) -> list[object]:
        return [self.task, *(word for source in self.sources for word in ("--source", source))]


def write_files(
    folder: Path,
    *,
    target: Server,
    sources: Mapping[str, Server],
    schemas: Sequence[str],
    name: str,
    extra: str = "",
    routes: str = "{}",
    route_rules: str = "[]",
    login: Mapping[str, str] | None = None,
    port: int | None = None,
) -> Files:
    """Files as DM documents them. `login` and `port` replace those of the sources, to be wrong with."""
    rules = f"    block-allow-list: ours\n    route-rules: {route_rules}\n    syncer-config-name: global"
    instances = "\n".join(f"  - source-id: {source}\n{rules}" for source in sources)
    task = folder / "task.yaml"
    task.write_text(
        f"""---
name: {name}
task-mode: all
meta-schema: {name}_meta
{extra}
target-database:
  host: {target.host}
  port: {target.port}
  user: {target.user}
  password: "{target.password}"

mysql-instances:
{instances}

block-allow-list:
  ours:
    do-dbs: {json.dumps(list(schemas))}

routes: {routes}

syncers:
  global:
    worker-count: 4
    batch: 100
"""
    )
    task.chmod(0o600)
    user = {"user": "root", "password": "", **(login or {})}
    files = []
    for source, server in sources.items():
        path = folder / f"{source}.yaml"
        path.write_text(
            f"""source-id: {source}
enable-gtid: false
enable-relay: false
from:
  host: {server.host}
  port: {port or server.port}
  user: {user["user"]}
  password: "{user["password"]}"
"""
        )
        path.chmod(0o600)
        files.append(path)
    return Files(task, tuple(files))


def processes_with(text: object, *files: str) -> dict[int, bytes]:
    """Return the arguments of other processes by their ids: those with a text in there, or in other files of /proc."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            arguments = (entry / "cmdline").read_bytes()
            if os.fsencode(str(text)) in b"".join([arguments, *((entry / file).read_bytes() for file in files)]):
                found[int(entry.name)] = arguments
    found.pop(os.getpid(), None)
    return found


def fingerprint(server: Server) -> dict[str, Any]:
    """Every table of a server with its definition and checksum: equal before and after means that nothing changed."""
    quoted = ", ".join(f"'{name}'" for name in SYSTEM_SCHEMAS)
    tables = server.sql(
        f"SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema NOT IN ({quoted})"
    )
    schemas = [name for (name,) in server.sql("SELECT schema_name FROM information_schema.schemata")]
    found: dict[str, Any] = {"schemas": sorted(schemas)}
    for schema, table in tables:
        created = server.sql(f"SHOW CREATE TABLE `{schema}`.`{table}`")[0][1]
        found[f"{schema}.{table}"] = (created, server.sql(f"CHECKSUM TABLE `{schema}`.`{table}`")[0][1])
    return found
