"""`doctor`: checks whether a task can run on this machine. Every failure names its remedy. Nothing is changed, except
that the work directory and dmctl's own metadata DB are created if missing.

doctor                              Java, pyspark, work directory, disk, ports, metadata DB
doctor -s SOURCE.yaml …             also logins, grants and binlog settings of sources, and their relay disks
doctor TASK.yaml -s SOURCE.yaml …   also the whole precheck of the task, and its metrics port
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from airflow_provider_dm.cli import meta
from airflow_provider_dm.cli.check_task import to_json
from airflow_provider_dm.cli.inputs import add_file_arguments, named_variables, read_arguments, source_endpoint
from airflow_provider_dm.cli.output import Exit, Output
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.yaml_file import load_source
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.precheck.result import CheckResult, Finding, PrecheckReport, State
from airflow_provider_dm.engine.precheck.run import check_source, run_precheck
from airflow_provider_dm.engine.relay.purge import GIGABYTE
from airflow_provider_dm.launch.machine import check_disk, check_metrics_port, checked, machine_results
from airflow_provider_dm.launch.starts import with_starts
from airflow_provider_dm.launch.workdir import shared_relay


def add_verbs(verbs: Verbs) -> None:
    parser = verbs.add("doctor", doctor)
    add_file_arguments(parser, nargs="?", help="also run the precheck of this task")
    meta.add_arguments(parser)


def doctor(arguments: argparse.Namespace, output: Output) -> Exit:
    """Print DM's document of check-task with every check; the exit code is 5 if one failed."""
    report = PrecheckReport("", tuple(_results(arguments)))
    failed = len(report.failures)
    msg = f"{failed} of {len(report.results)} checks failed" if failed else "check pass!!!"
    output.document({"result": report.passed, "msg": msg, **to_json(report)})
    return Exit.DONE if report.passed else Exit.PRECHECK


def _results(arguments: argparse.Namespace) -> Iterator[CheckResult]:
    root = meta.root_of(arguments)
    yield from machine_results(root)
    yield checked("metadata_db", "metadata DB", lambda: _check_metadata_db(arguments))
    try:
        yield from _of_files(arguments, root)
    except DmError as error:
        yield CheckResult.failed("files", "files", error)


def _of_files(arguments: argparse.Namespace, root: Path) -> Iterator[CheckResult]:
    """Yield the results for the given files. Raises the errors of reading these files."""
    for config in (load_source(file) for file in arguments.sources):
        if config.enable_relay:
            yield checked("relay_disk", config.source_id, partial(_check_relay_disk, config, root))
        if arguments.task is None:
            endpoint = source_endpoint(config, named_variables(arguments.password_env))
            yield from check_source(config, endpoint)
    if arguments.task is not None:
        inputs = read_arguments(arguments.task, arguments.sources, arguments.password_env)
        if inputs.task.metrics_addr:
            yield checked("ports", inputs.task.name, lambda: check_metrics_port(inputs.task.metrics_addr))
        inputs = with_starts(inputs)
        yield from run_precheck(inputs.task, inputs.pairs, inputs.target, inputs.relay_dirs(root)).results


def _check_metadata_db(arguments: argparse.Namespace) -> Finding:
    """Check that the metadata DB is reachable and has this release's schema. Raises MetaSchemaDiffers, …"""
    with meta.open_store(arguments):
        return State.OK, "reachable, with the schema of this release", ""


def _check_relay_disk(config: SourceConfig, root: Path) -> Finding:
    remedy = f"Free disk space, set a relay-dir of {config.source_id} on another disk, or lower purge.remain-space."
    directory = shared_relay(root, config.source_id, config.relay_dir)
    return check_disk(directory, config.purge.remain_space * GIGABYTE, remedy)
