"""Checks of the machine on which a task will run: Java, pyspark, work directory, disk, metadata DB and ports.

The results have the format of the precheck's results, each with its remedy; `dmctl doctor` prints them.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.config.listening import listen_address
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.precheck.result import CheckResult, Finding, State
from airflow_provider_dm.engine.relay.purge import GIGABYTE
from airflow_provider_dm.launch.preflight import check_pyspark, find_java
from airflow_provider_dm.launch.workdir import private_directory

LEAST_FREE: Final = GIGABYTE
"""Minimum free bytes of the work directory. A private relay log can need several times as much."""


def checked(name: str, where: str, check: Callable[[], Finding]) -> CheckResult:
    """Return the result of a check; a typed error becomes a failure with the error's remedy."""
    try:
        return CheckResult(name, where, *check())
    except DmError as error:
        return CheckResult.failed(name, where, error)


def check_java() -> Finding:
    """Check that a Java is found for Spark. Raises NotInstalled."""
    return State.OK, f"Java at {find_java()}", ""


def check_spark() -> Finding:
    """Check that all files of pyspark belong to one version. Raises NotInstalled."""
    return State.OK, f"pyspark {check_pyspark()}, all files unmodified", ""


def check_work_dir(root: Path) -> Finding:
    """Check that the work directory is, or can be created, readable by this user only. Raises InvalidInput."""
    private_directory(root / "tasks")
    return State.OK, f"{root} is private", ""


def check_disk(path: Path, wanted_bytes: int, remedy: str) -> Finding:
    """Check the free space of a directory's file system; the directory need not exist yet."""
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    space = f"{free / GIGABYTE:.1f} GB are free in {path}"
    if free >= wanted_bytes:
        return State.OK, space, ""
    state = State.FAIL if free < LEAST_FREE else State.WARN
    return state, f"{space}, but {wanted_bytes / GIGABYTE:.0f} GB are recommended", remedy


def check_local_address() -> Finding:
    """Check that the Spark driver can listen on this machine's own address."""
    name = os.environ.get("SPARK_LOCAL_IP") or socket.gethostname()
    try:
        address = socket.gethostbyname(name)
        with socket.socket() as listener:
            listener.bind((address, 0))
    except OSError as error:
        why = error.strerror or error
        what = f"Spark cannot listen on the address of {name}, which is not an address of this machine ({why})"
        return State.FAIL, what, "export SPARK_LOCAL_IP=127.0.0.1 (on a cluster: an address that executors reach)."
    return State.OK, f"Spark listens on {address}", ""


def check_metrics_port(address: str) -> Finding:
    """Check that the address in `metrics-addr` is free."""
    family, place = listen_address(address)
    try:
        with socket.socket(family) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
    except OSError as error:
        remedy = "Set another port in metrics-addr, or end the process that listens there (`ss -ltnp`)."
        return State.FAIL, f"metrics-addr {address} cannot be used ({error.strerror})", remedy
    return State.OK, f"metrics-addr {address} is free", ""


def machine_results(root: Path) -> Iterator[CheckResult]:
    """Yield the results that depend neither on a task nor on a source."""
    here = socket.gethostname()
    yield checked("java", here, check_java)
    yield checked("pyspark", here, check_spark)
    yield checked("work_dir", here, lambda: check_work_dir(root))
    remedy = "Free some space, or name a directory on another disk by --work-dir or DM_WORK_DIR."
    yield checked("disk", here, lambda: check_disk(root, LEAST_FREE, remedy))
    yield checked("ports", here, check_local_address)
