"""Every key of a task.yaml and a source.yaml is read by the code, refused, or declared to be without effect."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import airflow_provider_dm
from airflow_provider_dm.engine.config.base import DmModel, aliases_of
from airflow_provider_dm.engine.config.errors import ConfigError
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.config.yaml_file import source_of, task_of
from airflow_provider_dm.engine.errors import NotSupportedYet
from tests.reference.configuration_page import is_without_effect, models

PACKAGE: Final = Path(airflow_provider_dm.__file__).parent

INSTANCES: Final[dict[str, object]] = {"name": "t", "mysql-instances": [{"source-id": "a"}]}
REFUSED: Final[dict[str, dict[str, object]]] = {
    "ssl-ca-base64": {"from": {"host": "h", "security": {"ssl-ca-base64": "YQ=="}}},
    "ssl-cert-base64": {"from": {"host": "h", "security": {"ssl-cert-base64": "YQ=="}}},
    "ssl-key-base64": {"from": {"host": "h", "security": {"ssl-key-base64": "YQ=="}}},
    "ssl-ca-bytes": {"from": {"host": "h", "security": {"ssl-ca-bytes": [97]}}},
    "ssl-cert-bytes": {"from": {"host": "h", "security": {"ssl-cert-bytes": [97]}}},
    "ssl-key-bytes": {"from": {"host": "h", "security": {"ssl-key-bytes": [97]}}},
}
"""Keys of a source.yaml that `require_supported` refuses."""
REMOVED: Final[dict[str, dict[str, object]]] = {
    "column-mappings": INSTANCES | {"column-mappings": {"m": {}}},
    "column-mapping-rules": INSTANCES | {"mysql-instances": [{"source-id": "a", "column-mapping-rules": ["m"]}]},
}
"""Keys of a task.yaml that DM has removed."""


EVERY: Final = dict.fromkeys([*models(TaskConfig), *models(SourceConfig)])
KEYS: Final = [(model, name) for model in EVERY for name in model.model_fields]


@cache
def reads() -> frozenset[tuple[str, str]]:
    """Return (model, field) of all attributes that the code reads, by the types that mypy infers."""
    script = Path(__file__).with_name("attribute_reads.py")
    done = subprocess.run([sys.executable, script], cwd=PACKAGE.parent, check=True, capture_output=True, text=True)
    return frozenset((model, name) for model, name in json.loads(done.stdout))


@pytest.mark.timeout(1200)  # mypy infers the types for the first of them: 15 s of CPU
@pytest.mark.parametrize(("model", "name"), KEYS, ids=[f"{model.__name__}-{name}" for model, name in KEYS])
def test_every_key_has_an_effect_or_is_refused_or_documented(model: type[DmModel], name: str) -> None:
    key = aliases_of(model, name)[0]
    is_read = any((one.__name__, name) in reads() for one in model.__mro__)
    assert is_read or key in REFUSED or key in REMOVED or is_without_effect(model, name)


@pytest.mark.parametrize("key", REFUSED)
def test_refused_keys_of_a_source_are_refused(key: str) -> None:
    with pytest.raises(NotSupportedYet, match="TLS material"):
        source_of({"source-id": "a", **REFUSED[key]}).require_supported()


@pytest.mark.parametrize("key", REMOVED)
def test_removed_keys_of_a_task_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        task_of(REMOVED[key])
