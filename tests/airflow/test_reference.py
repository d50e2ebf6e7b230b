"""The docstrings of operators, sensors and triggers name every argument, and docs/reference agrees with them."""

import importlib
import inspect

import pytest

from airflow_provider_dm.get_provider_info import get_provider_info
from airflow_provider_dm.notifications.shard_ddl import DmDdlLockNotifier
from airflow_provider_dm.task_groups.migration import DmMigrationTaskGroup
from airflow_provider_dm.triggers.base import MetadataTrigger
from tests.reference import FOLDER
from tests.reference.operators_page import described, operators, operators_page, parameters


def triggers() -> list[type[MetadataTrigger]]:
    """Return the triggers that the provider names."""
    modules = [m for entry in get_provider_info()["triggers"] for m in entry["python-modules"]]
    found = [one for name in modules for one in vars(importlib.import_module(name)).values() if inspect.isclass(one)]
    ours = {one: None for one in found if issubclass(one, MetadataTrigger) and not inspect.isabstract(one)}
    return [*ours]


@pytest.mark.parametrize(
    "documented",
    [*operators(), *triggers(), DmDdlLockNotifier, DmMigrationTaskGroup],
    ids=lambda one: one.__name__,
)
def test_every_argument_is_documented(documented: type) -> None:
    found = described(documented)
    assert set(found) == set(parameters(documented))
    assert all(found.values())


def test_the_page_of_operators_is_what_the_docstrings_yield() -> None:
    assert (FOLDER / "operators.md").read_text() == operators_page()
