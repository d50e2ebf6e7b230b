"""Cached machine code is used only for the same sources, and only from a directory that no other user can write to."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.kernels import build

PACKAGE = "airflow_provider_dm.engine.binlog.kernels"
ENGINE = "airflow_provider_dm.engine."
REPOSITORY = Path(build.__file__).parents[4]


def imported(path: Path) -> set[str]:
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    found = {node.module for node in nodes if node.module}
    found |= {f"{node.module}.{alias.name}" for node in nodes for alias in node.names if node.module}
    modules = {name for name in found if name.startswith(ENGINE) and not name.startswith(PACKAGE)}
    return {name for name in modules if (REPOSITORY / (name.replace(".", "/") + ".py")).exists()}


def test_every_module_whose_numbers_are_compiled_in_is_part_of_the_name() -> None:
    needed = set[str]()
    for path in Path(build.__file__).parent.glob("*.py"):
        needed |= imported(path)
    needed.discard(f"{ENGINE}user_cache")  # where they are kept
    assert {name.removeprefix(ENGINE) for name in needed} == set(build.CONSTANTS)


def fingerprint(root: Path) -> str:
    code = f"from {PACKAGE} import build; print(build._fingerprint())"
    environment = os.environ | {"PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["binlog/kernels/digits.py", "binlog/cells.py", "binlog/layout.py"])
def test_a_changed_source_has_another_name(module: str, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "airflow_provider_dm", tmp_path / "airflow_provider_dm")
    before = fingerprint(tmp_path)
    with open(tmp_path / "airflow_provider_dm/engine" / module, "a") as file:
        file.write("\n# changed\n")
    assert fingerprint(tmp_path) != before
    assert before == build.directory().name


def test_a_directory_that_others_can_write_into_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    for refused in (theirs, link):
        monkeypatch.setenv(build.DIRECTORY, str(refused))
        assert build._root() == build._REFUSED
    monkeypatch.setenv(build.DIRECTORY, str(tmp_path / "mine"))
    assert build._root() == tmp_path / "mine"
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o700


def test_kernels_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert build.ready()
    monkeypatch.setenv(build.SWITCH, "off")
    assert not build.ready()


DECODE = f"""
from {PACKAGE} import build
print(build.ready(), build.directory().exists())
"""


@pytest.mark.parametrize("damage", ["emptied", "missing", "cut"])
def test_a_damaged_cache_is_removed_and_nothing_stops(damage: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    shutil.copytree(build.directory(), cache / build.directory().name)
    cache.chmod(0o700)
    index = next((cache / build.directory().name).glob("split.split*.nbi"))
    match damage:
        case "emptied":
            index.write_bytes(b"")
        case "missing":
            index.unlink()
        case "cut":  # of the same size, so that only loading it tells
            index.write_bytes(index.read_bytes()[:100].ljust(index.stat().st_size, b"\0"))
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), build.DIRECTORY: str(cache)}
    done = subprocess.run([sys.executable, "-c", DECODE], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False" if damage == "cut" else "True"]
