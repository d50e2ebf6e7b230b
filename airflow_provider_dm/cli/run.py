"""`dmctl run`: a whole task in the foreground, without Airflow, with the same Spark apps.

The same command, repeated after a Ctrl-C, a crash or a reboot, continues: progress is in the target, the work directory
belongs to the task, and a new run takes over the lease of the previous one.
"""

from __future__ import annotations

import argparse
import time

from airflow_provider_dm.cli import meta
from airflow_provider_dm.cli.app_phase import RunContext
from airflow_provider_dm.cli.check_task import require_precheck
from airflow_provider_dm.cli.errors import Interrupted, RowsDiffer, SourcesNotQuiet
from airflow_provider_dm.cli.inputs import add_file_arguments, read_arguments
from airflow_provider_dm.cli.interrupts import interrupts
from airflow_provider_dm.cli.migration import Summary, run_phases
from airflow_provider_dm.cli.output import Exit, Output, exit_code_of
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.engine.config.job import UNTIL_CAUGHT_UP, UNTIL_FOREVER
from airflow_provider_dm.engine.config.start_meta import checked_time
from airflow_provider_dm.engine.errors import DmError, InvalidInput
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.engine.precheck.errors import PrecheckFailed
from airflow_provider_dm.engine.shard.lock import WAITING_FOR_LOCK
from airflow_provider_dm.launch.ddl_locks import locks_document
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.job import checked_until, local_holder
from airflow_provider_dm.launch.preflight import check_pyspark, find_java
from airflow_provider_dm.launch.relays import Relays
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.starts import with_starts
from airflow_provider_dm.launch.supervisor import Supervisor
from airflow_provider_dm.launch.workdir import TaskDir


def add_verbs(verbs: Verbs) -> None:
    parser = verbs.add("run", run_task)
    add_run_arguments(parser)
    parser.add_argument(
        "--until",
        metavar="caught-up|FILE:POSITION|forever",
        default=UNTIL_CAUGHT_UP,
        type=_until,
        help="end of the incremental sync (default: %(default)s: the sources' locations at its start)",
    )
    parser.add_argument("--no-verify", action="store_true", help="do not compare the rows at the end")


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a run in the foreground, which a run in the background shares."""
    add_file_arguments(parser)
    begins = "start of an incremental task without a checkpoint: 'YYYY-MM-DD hh:mm:ss' in the source's time zone"
    parser.add_argument("--start-time", metavar="TIME", default="", type=_time, help=begins)
    parser.add_argument("--master", metavar="URL", help="Spark master (default: this machine, all cores)")
    memory = SparkSettings.driver_memory
    parser.add_argument(
        "--driver-memory", metavar="SIZE", default=memory, help="memory of the Spark driver (default: %(default)s)"
    )
    parser.add_argument(
        "--spark-conf",
        metavar="KEY=VALUE",
        type=_pair,
        action="append",
        default=[],
        help="Spark configuration; may be repeated",
    )
    meta.add_arguments(parser)


def run_task(arguments: argparse.Namespace, output: Output) -> Exit:
    """Run all phases of a task. Raises DmError for problems before the first phase."""
    inputs = read_arguments(arguments.task, arguments.sources, arguments.password_env)
    if len(inputs.sources) > 1 and arguments.until not in (UNTIL_CAUGHT_UP, UNTIL_FOREVER):
        raise InvalidInput(
            f"--until {arguments.until} is a location in one source's binlog, but the task has "
            f"{len(inputs.sources)} sources.",
            "Use caught-up or forever, or a task of one source.",
        )
    check_pyspark()
    find_java()
    directory = TaskDir.of(inputs.task.name, meta.root_of(arguments))
    with directory.locked():
        with meta.open_store(arguments) as store:
            return _run(arguments, output, inputs, directory, store)


def _run(arguments: argparse.Namespace, output: Output, inputs: Inputs, directory: TaskDir, store: MetaStore) -> Exit:
    began, summary, url = time.monotonic(), Summary(), meta.meta_url(arguments)
    try:
        inputs = with_starts(inputs, arguments.start_time)
        require_precheck(inputs, directory.root, output)
        supervisor = Supervisor.prepared(
            inputs,
            directory=directory,
            until=arguments.until,
            store=store,
            meta_url=url,
            holder=local_holder(inputs.task.name, directory.root),
            settings=SparkSettings(arguments.master, arguments.driver_memory, dict(arguments.spark_conf)),
        )
        summary.seconds["precheck"] = time.monotonic() - began
        directory.forget_old_runs()
        supervisor.take(withdrawn=(Stage.PAUSED, Stage.STOPPED))
        with interrupts() as seen, Relays(supervisor.upstreams, meta_url=url, log_dir=directory.path) as relays:
            context = RunContext(supervisor, directory, relays, output, seen)
            run_phases(context, summary, until=arguments.until, verify=not arguments.no_verify)
            locks = locks_document(store, inputs.task.name)["locks"]
    except DmError as error:
        summary.seconds["total"] = time.monotonic() - began
        output.failure(error, summary.to_json(inputs.task))
        return _exit_of(error)
    supervisor.finish()
    summary.seconds["total"] = time.monotonic() - began
    status = WAITING_FOR_LOCK if summary.waiting else "finished"
    body = {"status": status, **summary.to_json(inputs.task), "ddl_locks": locks}
    output.answer(body, readable(summary, inputs))
    return Exit.WAITING if summary.waiting else Exit.DONE


def readable(summary: Summary, inputs: Inputs) -> str:
    verdict = {True: "verified: every row is equal", False: "NOT equal", None: "not verified"}[summary.verified]
    sources = [f"  {source} is synced to {location}" for source, location in summary.locations.items()]
    times = ", ".join(f"{phase} {spent:.1f} s" for phase, spent in summary.seconds.items())
    return "\n".join(
        [
            f"task {inputs.task.name}: {verdict}",
            f"  {summary.rows:,} rows, {summary.changes_applied:,} changes applied",
            *sources,
            *([f"  {summary.waiting}"] if summary.waiting else []),
            f"  {times}",
        ]
    )


def _until(text: str) -> str:
    try:
        return checked_until(text)
    except InvalidLocation as error:
        raise argparse.ArgumentTypeError(error.message()) from None


def _time(text: str) -> str:
    try:
        return checked_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _exit_of(error: DmError) -> Exit:
    match error:
        case Interrupted():
            return Exit.INTERRUPTED
        case RowsDiffer() | SourcesNotQuiet():
            return Exit.DIFFERENT
        case PrecheckFailed():
            return Exit.PRECHECK
        case _:
            return exit_code_of(error)
