"""A relay that catches up, and to which something happens while it pulls a file again; it is forked from a nursery."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymysql

from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay import refill
from airflow_provider_dm.engine.relay.service import run_relay
from airflow_provider_dm.engine.relay.spec import RelaySpec


def main(arguments: Sequence[str]) -> int:
    """Run it: the URL of its metadata DB, its spec file, what happens. Returns the exit code."""
    url, path, step = arguments
    spec = RelaySpec.read(Path(path))
    appends, append = 0, refill.HiddenFile.append

    def cut() -> None:
        source = spec.source.endpoint
        with pymysql.connect(host=source.host, port=source.port, user=source.user).cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
            for (number,) in cursor.fetchall():
                cursor.execute(f"KILL {number}")

    def in_the_middle(self: refill.HiddenFile, pieces: Any) -> None:
        nonlocal appends
        appends += 1
        append(self, pieces)
        if appends == 3:
            cut() if step == "cut in the middle" else _die()

    replaced: dict[str, tuple[object, str, object]] = {
        "in the middle": (refill.HiddenFile, "append", in_the_middle),
        "cut in the middle": (refill.HiddenFile, "append", in_the_middle),
        "before the rename": (refill.Refiller, "_publish", _die),
        "behind the rename": (refill, "sync_folder", _die),
    }
    owner, name, accident = replaced[step]
    setattr(owner, name, accident)
    with MetaStore.open(url) as store:
        run_relay(spec, store, threading.Event())
    return 0


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
