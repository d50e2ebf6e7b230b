"""DM's verbs that this release does not support: each names an alternative."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final, NoReturn

from airflow_provider_dm.cli.output import Output
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.engine.errors import NotSupportedYet

UNSUPPORTED: Final[Mapping[str, str]] = {
    "handle-error": "Use `dmctl binlog skip|replace|inject|revert TASK`, DM's newer name for it.",
    "operate-schema": "Use `dmctl binlog-schema get|update|delete TASK.yaml`, DM's newer name for it.",
    "validation": "`dmctl run` compares all rows when it ends caught up.",
    "transfer-source": "Sources are not bound to workers here.",
    "list-member": "There are no members: every run is an independent process.",
    "offline-member": "There are no members: every run is an independent process.",
    "operate-leader": "There are no members: every run is an independent process.",
    "encrypt": "Use `password-env`, `password-file` or an Airflow connection.",
    "decrypt": "Use `password-env`, `password-file` or an Airflow connection.",
}

IN_FILES: Final = "Configuration is in your files and in Airflow's connections."


def add_verbs(verbs: Verbs) -> None:
    """Add the verbs to the parser; `main` passes any arguments to `refuse`."""
    for name in UNSUPPORTED:
        verbs.add(name, refuse)


def refuse(arguments: argparse.Namespace, _output: Output) -> NoReturn:
    """Raise NotSupportedYet for the verb."""
    raise NotSupportedYet(f"dmctl {arguments.verb}", "command line", UNSUPPORTED.get(arguments.verb, IN_FILES))
