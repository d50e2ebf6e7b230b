"""`purge-relay`: removes relay files that no task needs, on this machine, or by a running relay on its machine.

    purge-relay -s SOURCE --filename FILE [--sub-dir DIR]   all files before this one
    purge-relay -s SOURCE --time 'YYYY-MM-DD hh:mm:ss'      files that ended before (local time)
    purge-relay -s SOURCE --inactive                        all files that no task needs

With --dry-run nothing is removed, and the answer lists the files. A relay may be writing at the same time.
"""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow_provider_dm.cli import meta
from airflow_provider_dm.cli.inputs import load_source_of
from airflow_provider_dm.cli.output import Exit, Output, source_answer
from airflow_provider_dm.cli.parsing import Verbs, add_sources
from airflow_provider_dm.engine.errors import DmError, InvalidInput
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.purge import BeforeFile, BeforeTime, Inactive, PurgeRequest
from airflow_provider_dm.engine.relay.purge_order import PurgeOrder
from airflow_provider_dm.launch.relay_purge import purge_relay_log
from airflow_provider_dm.launch.workdir import shared_relay

Json = dict[str, Any]


def add_verbs(verbs: Verbs) -> None:
    parser = verbs.add("purge-relay", purge_relay)
    add_sources(parser, required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--filename", "-f", metavar="FILE", help="purge all files before this one")
    what.add_argument("--time", metavar="TIME", type=local_time, help="purge files that ended before this local time")
    what.add_argument("--inactive", action="store_true", help="purge all files that no task needs")
    parser.add_argument("--sub-dir", metavar="DIR", help="sub-directory of FILE; default: the newest one")
    parser.add_argument("--dry-run", action="store_true", help="remove nothing, list the files")
    file_help = "the source's configuration file, needed if it sets relay-dir"
    parser.add_argument("--source-file", metavar="SOURCE.yaml", type=Path, help=file_help)
    meta.add_arguments(parser)


def purge_relay(arguments: argparse.Namespace, output: Output) -> Exit:
    """Purge relay logs; `msg` of the answer lists the kept files and their users. Raises InvalidInput."""
    request = _request(arguments)
    with meta.open_store(arguments) as store:
        answers = [
            _answer(store, source, _root(arguments, source), request, output, dry_run=arguments.dry_run)
            for source in arguments.sources
        ]
    return output.sources(None, answers)


def _request(arguments: argparse.Namespace) -> PurgeRequest:
    if arguments.filename is not None:
        if len(arguments.sources) != 1:
            refusal = "nothing is purged: for --filename, only one source can be given at a time."
            raise InvalidInput(refusal, "Purge one source after the other.")
        return BeforeFile(arguments.filename, arguments.sub_dir)
    if arguments.sub_dir is not None:
        raise InvalidInput("nothing is purged: --sub-dir needs a file.", "Give the file with --filename.")
    return Inactive() if arguments.time is None else BeforeTime(arguments.time.timestamp())


def local_time(text: str) -> datetime:
    """Parse `YYYY-MM-DD hh:mm:ss`, in local time unless it has an offset."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not YYYY-MM-DD hh:mm:ss") from error


def _root(arguments: argparse.Namespace, source: str) -> Path:
    file = arguments.source_file
    relay_dir = load_source_of(file, source).relay_dir if file is not None else ""
    return shared_relay(meta.root_of(arguments), source, relay_dir)


def _answer(store: MetaStore, source: str, root: Path, request: PurgeRequest, output: Output, *, dry_run: bool) -> Json:
    status = store.relay_status(source)
    answer = source_answer(source, status.host if status else "")
    try:
        report = purge_relay_log(store, source, PurgeOrder(request, dry_run), here=root)
    except DmError as error:
        output.print_line(f"error {error}")
        return {**answer, "result": False, "msg": str(error)}
    output.print_line(f"{source}: {'would remove' if dry_run else 'removed'} {report}")
    files = [{"subDir": file.sub_dir, "filename": file.filename, "bytes": file.size} for file in report.files]
    return {**answer, "msg": report.kept, **({"files": files} if dry_run else {})}
