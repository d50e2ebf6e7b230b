"""The relay's verbs: `start-relay` in the foreground, `stop-relay` for one that runs anywhere."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from airflow_provider_dm.cli import meta_url
from airflow_provider_dm.cli.inputs import SourceFilesDiffer, named_variables, source_endpoint
from airflow_provider_dm.cli.interrupts import interrupts
from airflow_provider_dm.cli.output import Exit, Output, dm_answer
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.engine.config.yaml_file import load_source
from airflow_provider_dm.engine.meta.model import Stage
from airflow_provider_dm.launch.job import Upstream
from airflow_provider_dm.launch.relays import LOOK_EVERY_SECONDS, Relays, RelayStopped, own_relay_directory
from airflow_provider_dm.launch.workdir import private_directory

START_HELP = "pull a source's binlog into its relay directory, in the foreground, until stopped"
STOP_HELP = "ask the relay of a source to end, wherever it runs"


def add_verbs(verbs: Verbs) -> None:
    start = verbs.add("start-relay", start_relay, START_HELP)
    start.add_argument("--source", "-s", metavar="SOURCE-ID", help="checked against the file")
    start.add_argument("--source-file", metavar="SOURCE.yaml", type=Path, required=True)
    start.add_argument("--password-env", metavar="NAME=VARIABLE", action="append", default=[])
    meta_url.add_arguments(start)
    stop = verbs.add("stop-relay", stop_relay, STOP_HELP)
    stop.add_argument("--source", "-s", metavar="SOURCE-ID", action="append", required=True, dest="sources")
    meta_url.add_arguments(stop)


def start_relay(arguments: argparse.Namespace, output: Output) -> Exit:
    """Until Ctrl-C, SIGTERM, `stop-relay`, or a typed error of the relay (raised)."""
    config = load_source(arguments.source_file)
    config.require_supported()
    if arguments.source and arguments.source != config.source_id:
        raise SourceFilesDiffer("start-relay", arguments.source, config.source_id)
    root = meta_url.root_of(arguments)
    directory = own_relay_directory(config, root)
    endpoint = source_endpoint(config, named_variables(arguments.password_env, os.environ), os.environ)
    upstream = Upstream(config, endpoint, directory)
    store, url = meta_url.open_store(arguments)
    with store:
        store.set_relay_desired(config.source_id, Stage.RUNNING)
        log_dir = private_directory(root / "logs")
        with interrupts() as seen, Relays([upstream], meta_url=url, log_dir=log_dir) as relays:
            output.say(f"relay of {config.source_id} writes {directory}; Ctrl-C ends it")
            while not seen.wait(LOOK_EVERY_SECONDS) and relays.error is None:
                if store.relay_desired(config.source_id) is Stage.STOPPED:
                    break
        if relays.error is not None and not isinstance(relays.error, RelayStopped):
            raise relays.error
    output.answer({}, dm_answer({}))
    return Exit.DONE


def stop_relay(arguments: argparse.Namespace, output: Output) -> Exit:
    """The relay sees it within its next look at the metadata DB."""
    store, _ = meta_url.open_store(arguments)
    with store:
        for source in arguments.sources:
            store.set_relay_desired(source, Stage.STOPPED)
    body = {"sources": [{"result": True, "msg": "", "source": source, "worker": ""} for source in arguments.sources]}
    output.answer({"op": "StopRelay", **body}, dm_answer({"op": "StopRelay", **body}))
    return Exit.DONE
