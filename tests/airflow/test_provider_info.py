"""The provider info is valid for Airflow's schemas, complete, and every path in it can be imported."""

import importlib
import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_provider_dm.get_provider_info import get_provider_info
from tests.documents import examples_are_true, modules_with_examples

ROOT = Path(__file__).resolve().parents[2]


def schema(name: str) -> Any:
    return json.loads(files("airflow").joinpath(name).read_text())


def modules() -> list[str]:
    info = get_provider_info()
    rooms = ("operators", "sensors", "hooks", "triggers")
    return [module for room in rooms for entry in info[room] for module in entry["python-modules"]]


def test_it_follows_airflows_schema() -> None:
    jsonschema.validate(get_provider_info(), schema("provider_info.schema.json"))


def test_it_follows_the_stricter_schema_of_airflows_own_providers() -> None:
    of_a_release = {"state": "ready", "source-date-epoch": 1, "versions": ["0.1.0"]}
    jsonschema.validate(get_provider_info() | of_a_release, schema("provider.yaml.schema.json"))


def test_every_class_exists_and_has_a_docstring() -> None:
    info = get_provider_info()
    for path in (*info["extra-links"], *info["notifications"], *(plugin["plugin-class"] for plugin in info["plugins"])):
        module, _, name = path.rpartition(".")
        assert getattr(importlib.import_module(module), name).__doc__


def test_every_airflow_module_is_in_the_provider_info() -> None:
    private = {"arguments", "base", "environment", "errors", "inputs", "lineage", "settings", "server_summary"}
    there = {
        f"airflow_provider_dm.{room}.{file.stem}"
        for room in ("operators", "sensors", "hooks", "triggers")
        for file in (ROOT / "airflow_provider_dm" / room).glob("*.py")
        if file.stem not in private | {"__init__"}
    }
    assert set(modules()) == there


@pytest.mark.parametrize("kind", get_provider_info()["connection-types"], ids=lambda kind: kind["connection-type"])
def test_a_connection_type_and_its_hook_agree(kind: dict[str, Any]) -> None:
    module, _, name = kind["hook-class-name"].rpartition(".")
    hook = getattr(importlib.import_module(module), name)
    assert (hook.conn_type, hook.hook_name) == (kind["connection-type"], kind["hook-name"])
    assert callable(hook.test_connection)


@pytest.mark.parametrize("module", modules())
def test_modules_and_their_public_classes_and_methods_are_documented(module: str) -> None:
    found = importlib.import_module(module)
    assert found.__doc__
    public = [one for name, one in vars(found).items() if not name.startswith("_") and isinstance(one, type)]
    for one in public:
        if one.__module__ == module:
            assert one.__doc__, one
            missing = [n for n, f in vars(one).items() if callable(f) and not n.startswith("_") and not f.__doc__]
            assert not missing, (one, missing)


@pytest.mark.parametrize("module", modules_with_examples("airflow_provider_dm/hooks", "airflow_provider_dm/plugins"))
def test_the_examples_in_docstrings_are_correct(module: str) -> None:
    examples_are_true(module)


def test_airflow_lists_the_provider_and_reads_its_configuration() -> None:
    from airflow.providers_manager import ProvidersManager
    from airflow.sdk import conf

    manager = ProvidersManager()
    assert "airflow-provider-dm" in manager.providers
    assert {"dm_database", "dm_meta"} <= set(manager.hooks)
    assert conf.get("dm", "spark_master") == "local[*,4]"


def test_parsing_a_dag_file_imports_nothing_heavy() -> None:
    """Airflow parses DAG files again and again: an operator costs what Airflow costs, and little more."""
    script = f"""
import sys, time
import airflow.sdk
before = set(sys.modules)
began = time.process_time()
for module in {modules()!r}:
    if not module.startswith(("airflow_provider_dm.triggers", "airflow_provider_dm.hooks.spark")):
        __import__(module)
heavy = ("pyspark", "numba", "pyarrow", "pandas", "sqlalchemy", "alembic", "airflow.providers")
new = [name for name in set(sys.modules) - before if name.split(".")[0] in heavy or name.startswith(heavy[-1] + ".")]
print(time.process_time() - began, sorted(new)[:10])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    seconds, _, heavy = done.stdout.strip().splitlines()[-1].partition(" ")
    assert heavy == "[]"
    assert float(seconds) < 0.5


def test_importing_the_package_or_its_info_imports_nothing() -> None:
    script = (
        "import sys; import airflow_provider_dm.get_provider_info; print([m for m in sys.modules if 'airflow' in m])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "['airflow_provider_dm', 'airflow_provider_dm.get_provider_info']"
