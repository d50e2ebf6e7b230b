"""Every key of a task.yaml and a source.yaml is read by the code, refused, or documented as without effect."""

import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

import pytest

import airflow_provider_dm
from airflow_provider_dm.engine.config.base import DmModel, aliases_of
from airflow_provider_dm.engine.config.problems import ConfigError
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.config.yaml_file import source_of, task_of
from airflow_provider_dm.engine.errors import NotSupportedYet

PACKAGE: Final = Path(airflow_provider_dm.__file__).parent
LIMITS: Final = PACKAGE.parent / "docs" / "limits.md"

VARIABLES: Final = {
    "TaskConfig": "task",
    "Experimental": "experimental",
    "MariadbSchemas": "mariadb2tidb",
    "TidbConfig": "tidb",
    "DatabaseConfig": "database",
    "TargetDatabase": "database",
    "Security": "security",
    "MysqlInstance": "instance",
    "StartMeta": "meta",
    "MydumperConfig": "mydumper|chosen",
    "LoaderConfig": "loader|chosen",
    "SyncerConfig": "syncer|chosen",
    "ValidatorConfig": "validator",
    "RouteRule": "rule",
    "ExtractColumn": "one",
    "FilterRule": "rule",
    "ExpressionFilter": "one",
    "BlockAllowConfig": "config",
    "TablePattern": "one",
    "SourceConfig": "config|source",
    "PurgeConfig": "config",
    "CheckerConfig": "checker",
}
"""How the code calls a value of each model. An attribute of another variable is no use of the key: `case_sensitive`
is a key of both files."""

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


def models(annotation: Any) -> Iterator[type[DmModel]]:
    if isinstance(annotation, type) and issubclass(annotation, DmModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models(field.annotation)
    for argument in get_args(annotation):
        yield from models(argument)


EVERY: Final = dict.fromkeys([*models(TaskConfig), *models(SourceConfig)])
KEYS: Final = [(model, name) for model in EVERY for name in model.model_fields]


@cache
def code() -> str:
    files = [*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "spark_apps").glob("*.py")]
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted(files))


def is_used(model: type[DmModel], name: str) -> bool:
    variables = VARIABLES[model.__name__]
    inside = "\n".join(inspect.getsource(one) for one in model.__mro__ if one in EVERY)
    return bool(re.search(rf"\b({variables})\.{name}\b", code()) or re.search(rf"\bself\.{name}\b", inside))


@cache
def documented() -> frozenset[str]:
    """Return the keys that docs/limits.md lists as keys without effect."""
    section = LIMITS.read_text(encoding="utf-8").split("### Keys without effect")[1].split("\n### ")[0]
    return frozenset(re.findall(r"`([^`]+)`", section))


@pytest.mark.parametrize(("model", "name"), KEYS, ids=[f"{model.__name__}-{name}" for model, name in KEYS])
def test_every_key_has_an_effect_or_is_refused_or_documented(model: type[DmModel], name: str) -> None:
    key = aliases_of(model, name)[0]
    assert is_used(model, name) or key in REFUSED or key in REMOVED or key in documented()


@pytest.mark.parametrize("key", REFUSED)
def test_refused_keys_of_a_source_are_refused(key: str) -> None:
    with pytest.raises(NotSupportedYet, match="TLS material"):
        source_of({"source-id": "a", **REFUSED[key]}).require_supported()


@pytest.mark.parametrize("key", REMOVED)
def test_removed_keys_of_a_task_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        task_of(REMOVED[key])
