"""The relay's verbs: `start-relay` (in the foreground, or a wish), `stop-relay`, `pause-relay`, `resume-relay`.

What a relay shall do is a wish in the metadata DB; a running relay looks every second, wherever it runs. So all
verbs work from any machine, but none of them starts a process there: `start-relay --source-file` is the process.
Names of workers are taken as DM's dmctl takes them and mean nothing, as there are no workers to choose from.
"""

from __future__ import annotations

import argparse
import logging
import os
from functools import partial
from pathlib import Path

from airflow_provider_dm.cli import meta_url
from airflow_provider_dm.cli.inputs import OtherSource, named_variables, source_endpoint
from airflow_provider_dm.cli.interrupts import interrupts
from airflow_provider_dm.cli.output import Exit, Output, dm_answer
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.cli.relay_desired import answer_of, is_alive, wait_until_obeyed, worker
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.yaml_file import load_source
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.meta.model import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.launch.job import Upstream
from airflow_provider_dm.launch.relays import LOOK_EVERY_SECONDS, Relays, RelayStopped, own_relay_directory
from airflow_provider_dm.launch.workdir import private_directory

log = logging.getLogger(__name__)


class SourceNotNamed(DmError):
    """The command line says nothing about which source is meant."""

    verb: str

    code = "DM-1313"
    what = "{verb}: no source is named."
    hint = "Give -s SOURCE-ID for a relay that runs, or --source-file SOURCE.yaml to run one here."


def add_verbs(verbs: Verbs) -> None:
    start = verbs.add("start-relay", start_relay)
    start.add_argument("--source", "-s", metavar="SOURCE-ID", help="with --source-file: checked against the file")
    start.add_argument("--source-file", metavar="SOURCE.yaml", type=Path, help="run the relay here until it is stopped")
    start.add_argument("--password-env", metavar="NAME=VARIABLE", action="append", default=[])
    _add_workers(start)
    stop = verbs.add("stop-relay", stop_relay)
    _add_sources(stop)
    _add_workers(stop)
    pause = verbs.add("pause-relay", partial(_operate, op="PauseRelay", stage=Stage.PAUSED))
    _add_sources(pause)
    resume = verbs.add("resume-relay", partial(_operate, op="ResumeRelay", stage=Stage.RUNNING))
    _add_sources(resume)
    for parser in (start, stop, pause, resume):
        meta_url.add_arguments(parser)


def _add_sources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", "-s", metavar="SOURCE-ID", action="append", required=True, dest="sources")


def _add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workers", metavar="WORKER", nargs="*", help="accepted as DM does, without effect")


def start_relay(arguments: argparse.Namespace, output: Output) -> Exit:
    """Run a relay in the foreground where a file is given, else only record the wish that one runs. Raises
    SourceNotNamed, and what a relay in the foreground ends with.
    """
    if arguments.source_file is not None:
        return _run_here(arguments, output)
    if not arguments.source:
        raise SourceNotNamed("start-relay")
    store, _ = meta_url.open_store(arguments)
    with store:
        store.set_relay_desired(arguments.source, Stage.RUNNING)
        alive = is_alive(store.relay_status(arguments.source))
    how = f"run one: dmctl start-relay -s {arguments.source} --source-file SOURCE.yaml, or a DmRelayOperator"
    missing = f"no relay of {arguments.source} is running, and this command starts no process without a file; {how}"
    return output.document({"result": alive, "msg": "" if alive else missing})


def _run_here(arguments: argparse.Namespace, output: Output) -> Exit:
    """Run a relay until Ctrl-C, SIGTERM, `stop-relay`, or a typed error of the relay (raised)."""
    config = load_source(arguments.source_file)
    config.require_supported()
    if arguments.source and arguments.source != config.source_id:
        raise OtherSource(arguments.source, str(arguments.source_file), config.source_id)
    root = meta_url.root_of(arguments)
    directory = own_relay_directory(config, root)
    endpoint = source_endpoint(config, named_variables(arguments.password_env, os.environ), os.environ)
    upstream = Upstream(config, endpoint, directory)
    store, url = meta_url.open_store(arguments)
    with store:
        log_dir = private_directory(root / "logs")
        with interrupts() as seen, Relays([upstream], meta_url=url, log_dir=log_dir) as relays:
            output.say(f"relay of {config.source_id} writes {directory}; Ctrl-C ends it")
            while not seen.wait(LOOK_EVERY_SECONDS) and relays.error is None and not _is_stopped(store, config):
                pass
        if relays.error is not None and not isinstance(relays.error, RelayStopped):
            raise relays.error
    output.answer({}, dm_answer({}))
    return Exit.DONE


def _is_stopped(store: MetaStore, config: SourceConfig) -> bool:
    """Tell whether `stop-relay` was said. A relay that runs reads that by itself; one that stands by for another does
    not.

    A metadata DB that does not answer for a moment says nothing.
    """
    try:
        return store.relay_desired(config.source_id) is Stage.STOPPED
    except DmError as error:
        if error.reaction is not Reaction.RETRY:
            raise
        log.warning("%s Asking again.", error)
        return False


def stop_relay(arguments: argparse.Namespace, output: Output) -> Exit:
    """Ask relays to stop. Each sees it within its next look at the metadata DB; one that does not run has nothing left
    to do.
    """
    store, _ = meta_url.open_store(arguments)
    with store:
        idle = [source for source in arguments.sources if not is_alive(store.relay_status(source))]
        for source in arguments.sources:
            store.set_relay_desired(source, Stage.STOPPED)
    return output.document({"result": True, "msg": f"no relay is running of {', '.join(idle)}" if idle else ""})


def _operate(arguments: argparse.Namespace, output: Output, *, op: str, stage: Stage) -> Exit:
    """Record the wish for all sources first, then wait for each relay to obey."""
    store, _ = meta_url.open_store(arguments)
    with store:
        for source in arguments.sources:
            store.set_relay_desired(source, stage)
        answers = []
        for source in arguments.sources:
            status = wait_until_obeyed(store, source, stage)
            msg = answer_of(status, stage, source=source)
            answers.append({"result": not msg, "msg": msg, "source": source, "worker": worker(status)})
    result = all(answer["result"] for answer in answers)
    return output.document({"op": op, "result": result, "msg": "", "sources": answers})
