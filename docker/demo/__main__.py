"""`python -m demo [run|up|down]`: called by `docker/local`, which has installed what is needed.

`run` (the default) ends with one JSON object on stdout and exit code 0 only when every row was found equal. `--keep`
and `up` leave the servers and Airflow running; `down` ends them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Final

from rich.console import Console
from rich.table import Table

from demo.run import Outcome, run_dag, say
from demo.world import TARGETS, World, attach_world, fill_shards, remember, start_world_airflow, start_world_servers
from testbed.airflow_api import ApiError
from testbed.unavailable import ServerUnavailable

DEFAULT_ROWS: Final = 1_000_000
DEFAULT_WRITES_PER_SECOND: Final = 100


class Stopwatch:
    """Seconds of each named phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str, announcement: str) -> Iterator[None]:
        say(f"── {announcement}")
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 1)


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    _end_by_exception_on_sigterm()
    if arguments.command == "down":
        return down()
    return run(arguments, only_up=arguments.command == "up")


def run(arguments: argparse.Namespace, *, only_up: bool) -> int:
    """Start a world, run the DAG in it unless `only_up`, say what came out."""
    keep = arguments.keep or only_up
    home = _kept_home() if keep else Path(tempfile.mkdtemp(prefix="dm-demo-"))
    if keep and (home / "world.json").exists():
        say("a demo is already up: ./docker/local down ends it")
        _print_address(attach_world(home))
        return 1
    watch = Stopwatch()
    world: World | None = None
    failed = True
    try:
        world, rows = start(home, arguments, watch, keep=keep)
        remember(world)
        if only_up:
            failed = False
            return 0
        with watch.phase("run", f"migrating {rows:,} rows while writers make changes"):
            outcome = run_dag(world, writes_per_second=arguments.writes_per_second)
        watch.seconds.update(outcome.seconds, **_task_seconds(outcome))
        summarise(outcome, watch)
        failed = not outcome.verified
        print(json.dumps(_final(outcome, watch)), flush=True)
        return 0 if outcome.verified else 1
    finally:
        if world is not None:
            if failed:
                _keep_logs(world)
            if keep:
                _print_address(world)
            else:
                world.stop()
                say("The page DM showed this: docs/how-to/airflow-ui.md; `./docker/local demo --keep` leaves it up")


def start(home: Path, arguments: argparse.Namespace, watch: Stopwatch, *, keep: bool) -> tuple[World, int]:
    """Start the servers first, then Airflow while the shards are being filled."""
    rows, target = arguments.rows, arguments.target
    with watch.phase("servers", f"starting a MariaDB and a MySQL source and a target ({target})"):
        servers = start_world_servers(home, target, keep=keep)
    with watch.phase("fill", f"filling four shards with {rows:,} rows, starting Airflow meanwhile"):
        with ThreadPoolExecutor(max_workers=1) as pool:
            starting = pool.submit(start_world_airflow, home, servers, keep=keep)
            filled = fill_shards(servers, rows)
            world = World(home, servers, starting.result(), rows)
    _print_address(world)
    return world, filled


def down() -> int:
    """End what `up` or `--keep` left running."""
    home = _kept_home()
    try:
        world = attach_world(home)
    except OSError:
        say("no demo is up")
        return 0
    world.stop()
    say("stopped")
    return 0


def summarise(outcome: Outcome, watch: Stopwatch) -> None:
    """Print the result for people, on stderr."""
    console = Console(stderr=True)
    table = Table(title="Source and target compared, row by row", show_footer=False)
    for column in ("target table", "rows on the sources", "rows in the target", "equal"):
        table.add_column(column, justify="left" if column == "target table" else "right")
    if outcome.report is not None:
        for report in outcome.report.tables:
            equal = "yes" if report.equal else "NO"
            table.add_row(report.target.partition("@")[0], f"{report.source_rows:,}", f"{report.target_rows:,}", equal)
    console.print(table)
    if outcome.report is not None and not outcome.report.equal:
        console.print(str(outcome.report), highlight=False, markup=False)
    console.print(
        f"The writers made {outcome.changes_written:,} changes; {outcome.changes_applied:,} were read from the log and "
        f"applied, the others came with the copy; {outcome.deadlocks} transactions were rolled back by a deadlock. "
        f"They changed columns and keys of tables by {outcome.schema_changes} statements; "
        f"the target's tables followed {outcome.ddl_applied}."
    )
    for lock in outcome.ddl_locks:
        steps = " → ".join(f"{step['phase']} ({step['seconds']:g} s)" for step in lock["life"])
        console.print(f"DDL lock {lock['id']}, owner {lock['owner']}: {steps}", highlight=False, markup=False)
    console.print("Seconds: " + ", ".join(f"{name} {seconds:g}" for name, seconds in watch.seconds.items()))
    if outcome.state != "success":
        broken = [f"{task.task_id} ({task.state})" for task in outcome.tasks if task.state != "success"]
        console.print(f"The DAG run ended as {outcome.state}: {', '.join(broken)}", style="bold red")


def _final(outcome: Outcome, watch: Stopwatch) -> dict[str, object]:
    return {
        "verified": outcome.verified,
        "rows": outcome.report.rows if outcome.report else 0,
        "changes_applied": outcome.changes_applied,
        "changes_written": outcome.changes_written,
        "ddl_applied": outcome.ddl_applied,
        "ddl_locks": outcome.ddl_locks,
        "dag_run": outcome.state,
        "seconds": watch.seconds,
    }


def _task_seconds(outcome: Outcome) -> dict[str, float]:
    return {
        task.task_id: round((_moment(task.ended) - _moment(task.started)).total_seconds(), 1)
        for task in outcome.tasks
        if task.started and task.ended and not task.task_id.startswith("relay_") and task.map_index <= 0
    }


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _print_address(world: World) -> None:
    say(f"Airflow: {world.airflow.url}  login {world.airflow.user} / {world.airflow.password}")
    say(f"DM page: {world.airflow.url}/plugin/dm")


def _keep_logs(world: World) -> None:
    """Copy the logs of a failed run, which leaves nothing else behind."""
    kept = Path(tempfile.mkdtemp(prefix="dm-demo-logs-"))
    without_binlogs = shutil.ignore_patterns("mysql-bin.*")
    for folder in ("airflow/logs", "work"):
        if (world.home / folder).exists():
            shutil.copytree(world.home / folder, kept / folder, ignore=without_binlogs)
    for server in world.servers.values():
        if server.log.exists():
            shutil.copy(server.log, kept / f"{server.name}.log")
    say(f"logs are kept in {kept}")


def _kept_home() -> Path:
    home = Path(os.environ.get("DM_CACHE", Path.home() / ".cache" / "airflow-provider-dm")) / "demo"
    home.mkdir(parents=True, exist_ok=True)
    return home


def _end_by_exception_on_sigterm() -> None:
    """Make SIGTERM raise SystemExit, so that `finally` blocks stop what was started."""

    def leave(signum: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGTERM, leave)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="docker/local demo", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("run", "up", "down"), default="run")
    parser.add_argument("--rows", type=int, default=DEFAULT_ROWS, help="initial rows on both sources together")
    parser.add_argument(
        "--writes-per-second", type=int, default=DEFAULT_WRITES_PER_SECOND, help="transactions, each source"
    )
    parser.add_argument(
        "--target", choices=sorted(TARGETS), default="mysql", help="tidb: DM_TIDB_SERVER or PATH has a tidb-server"
    )
    parser.add_argument("--keep", action="store_true", help="leave the servers and Airflow running")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ApiError as error:
        sys.exit(f"Airflow's API failed: {error}")
    except ServerUnavailable as error:
        sys.exit(str(error))
