"""The relay's verbs: `start-relay` (in the foreground, or as a request), `stop-relay`, `pause-relay`, `resume-relay`.

The desired state of a relay is in the metadata DB, which a running relay reads every second on any machine. So all
verbs work from any machine, but none starts a process there: `start-relay --source-file` is the process itself. A
source whose tasks pull for themselves (`enable-relay: false`) has no relay that could fulfil a request: the verbs
refuse. DM's worker is the host of the relay, or the source; other names are refused.
"""

from __future__ import annotations

import argparse
import logging
import socket
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from airflow_provider_dm.cli import meta
from airflow_provider_dm.cli.inputs import add_password_argument, load_source_of, named_variables, source_endpoint
from airflow_provider_dm.cli.interrupts import interrupts
from airflow_provider_dm.cli.output import Exit, Output, source_answer
from airflow_provider_dm.cli.parsing import Verbs, add_sources
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.errors import InvalidInput, TransientErrorsLogged
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.processes import has_ended
from airflow_provider_dm.engine.relay import health
from airflow_provider_dm.launch.errors import RelayStopped
from airflow_provider_dm.launch.job import Upstream
from airflow_provider_dm.launch.relays import CHECK_EVERY_SECONDS, Relays
from airflow_provider_dm.launch.workdir import private_directory, shared_relay

RELAY_OBEY_SECONDS: Final = 15.0
"""A relay reads its desired state every second, and reports every second."""
_POLL_SECONDS: Final = 0.25

log = logging.getLogger(__name__)


def add_verbs(verbs: Verbs) -> None:
    start = verbs.add("start-relay", start_relay)
    start.add_argument("--source", "-s", metavar="SOURCE-ID", help="with --source-file: checked against the file")
    start.add_argument("--source-file", metavar="SOURCE.yaml", type=Path, help="run the relay here until it is stopped")
    add_password_argument(start)
    _add_workers(start)
    meta.add_arguments(start)
    stop = verbs.add("stop-relay", partial(_operate, op=None, stage=Stage.STOPPED))
    _add_workers(stop)
    pause = verbs.add("pause-relay", partial(_operate, op="PauseRelay", stage=Stage.PAUSED))
    resume = verbs.add("resume-relay", partial(_operate, op="ResumeRelay", stage=Stage.RUNNING))
    for parser in (stop, pause, resume):
        add_sources(parser, required=True)
        meta.add_arguments(parser)


def _add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workers", metavar="WORKER", nargs="*", help="the host of the relay, or the source-id")


def start_relay(arguments: argparse.Namespace, output: Output) -> Exit:
    """Run a relay in the foreground if a file is given, otherwise request that a relay runs. Raises InvalidInput, and
    the error of a relay in the foreground.
    """
    if arguments.source_file is not None:
        return _run_here(arguments, output)
    if not arguments.source:
        raise InvalidInput(
            "start-relay: no source is named.",
            "Give -s SOURCE-ID for a running relay, or --source-file SOURCE.yaml to run one here.",
        )
    source: str = arguments.source
    with meta.open_store(arguments) as store:
        status = store.relay_status(source)
        trouble = _refusal(source, status, arguments.workers, Stage.RUNNING)
        if not trouble:
            store.set_relay_desired(source, Stage.RUNNING)
    if not trouble and not _is_alive(status):
        how = f"run one: dmctl start-relay -s {source} --source-file SOURCE.yaml, or a DmRelayOperator"
        trouble = f"no relay of {source} is running, and this command starts no process without a file; {how}"
    return output.sources(None, [_answer(source, status, trouble)], trouble)


def _run_here(arguments: argparse.Namespace, output: Output) -> Exit:
    """Run a relay until Ctrl-C, SIGTERM, `stop-relay`, or a typed error of the relay, which is raised."""
    config = load_source_of(arguments.source_file, arguments.source)
    config.require_supported()
    here = socket.gethostname()
    if trouble := _unknown_worker(config.source_id, here, arguments.workers):
        return output.sources(None, [source_answer(config.source_id, here, trouble)], trouble)
    root = meta.root_of(arguments)
    directory = shared_relay(root, config.source_id, config.relay_dir)
    endpoint = source_endpoint(config, named_variables(arguments.password_env))
    upstream = Upstream(config, endpoint, directory)
    with meta.open_store(arguments) as store:
        log_dir = private_directory(root / "logs")
        with interrupts() as seen, Relays([upstream], meta_url=meta.meta_url(arguments), log_dir=log_dir) as relays:
            output.print_line(f"relay of {config.source_id} writes {directory}, and logs to {log_dir}; Ctrl-C ends it")
            while not seen.wait(CHECK_EVERY_SECONDS) and relays.error is None and not _is_stopped(store, config):
                pass
        if relays.error is not None and not isinstance(relays.error, RelayStopped):
            raise relays.error
    return output.sources(None, [source_answer(config.source_id, here)])


def _is_stopped(store: MetaStore, config: SourceConfig) -> bool:
    """Return True if `stop-relay` was requested. A running relay then ends; a standby for another relay does not.

    False if the metadata DB is not reachable.
    """
    with TransientErrorsLogged(log.warning):
        return store.relay_desired(config.source_id) is Stage.STOPPED
    return False


def _operate(arguments: argparse.Namespace, output: Output, *, op: str | None, stage: Stage) -> Exit:
    """Record the request for all sources with a relay, then wait until each relay has fulfilled it.

    `op`: DM's name of the operation in the answer; None: DM's answer has none.
    """
    with meta.open_store(arguments) as store:
        workers = getattr(arguments, "workers", ())
        refused = {source: _refusal(source, store.relay_status(source), workers, stage) for source in arguments.sources}
        for source, trouble in refused.items():
            if not trouble:
                store.set_relay_desired(source, stage)
        answers = []
        for source, trouble in refused.items():
            status = store.relay_status(source) if trouble else _wait_until_fulfilled(store, source, stage)
            answers.append(_answer(source, status, trouble or _trouble(status, stage, source)))
    return output.sources(op, answers)


def _answer(source: str, status: RelayStatus | None, trouble: str) -> dict[str, object]:
    return source_answer(source, status.host if status is not None else "", trouble)


def _refusal(source: str, status: RelayStatus | None, workers: Sequence[str], stage: Stage) -> str:
    """Return why no relay of a source can fulfil a request; "" if one can, now or later."""
    if status is not None and status.task and _is_alive(status):
        task, of_task = status.task, f"task {status.task} pulls the log of {source} for itself (`enable-relay: false`)"
        if stage is Stage.RUNNING:
            how = "end the run of the task, set `enable-relay: true` in the source's file, and start the task again"
            return f"{of_task}. For a relay log that serves all tasks: {how}"
        return f"{of_task}, and no relay serves all tasks. To end that: `dmctl pause-task {task}` or `stop-task {task}`"
    host = status.host if _is_alive(status) and status is not None else socket.gethostname()
    return _unknown_worker(source, host, workers)


def _unknown_worker(source: str, host: str, workers: Sequence[str]) -> str:
    unknown = [worker for worker in workers if worker not in (source, host)]
    return f"no worker {', '.join(unknown)} has a relay of {source}: name {host}, or no worker" if unknown else ""


def _is_alive(status: RelayStatus | None) -> bool:
    """Return True if a relay process is live and can fulfil requests. On this machine the process itself is checked."""
    return status is not None and health.is_alive(status, health.FRESH_SECONDS) and not has_ended(status.process)


def _wait_until_fulfilled(store: MetaStore, source: str, stage: Stage) -> RelayStatus | None:
    """Return the relay's status once it has that stage, has ended, or the timeout has passed."""
    deadline = time.monotonic() + RELAY_OBEY_SECONDS
    while True:
        status = store.relay_status(source)
        if status is None or status.stage is stage or not _is_alive(status) or time.monotonic() > deadline:
            return status
        time.sleep(_POLL_SECONDS)


def _trouble(status: RelayStatus | None, stage: Stage, source: str) -> str:
    """Return why a request is not fulfilled; "" if it is."""
    error = f" (its last error: {health.error_text(status.error)})" if status and status.error else ""
    if status is not None and stage is Stage.STOPPED and not _is_alive(status):
        return ""  # a relay of this source has run, and none runs now
    if status is None or not _is_alive(status):
        return f"no relay of {source} is running{error}"
    if status.stage is not stage:
        return f"the relay of {source} is still {status.stage.value} after {RELAY_OBEY_SECONDS:.0f} s{error}"
    return ""
