"""The docstrings of operators and sensors agree with their signatures, and docs/reference with the docstrings."""

import dataclasses
import importlib
import inspect

import pytest
from airflow.sdk import BaseNotifier, BaseOperator

from airflow_provider_dm.get_provider_info import get_provider_info
from airflow_provider_dm.notifications.shard_ddl import DmDdlLockNotifier
from airflow_provider_dm.task_groups.migration import DmMigrationTaskGroup
from airflow_provider_dm.triggers.base import MetadataTrigger
from tests.reference import FOLDER
from tests.reference.operators_page import PARAM, operators, operators_page

NAMES = {"Document": "str | dict", "Sequence[": "list[", "Mapping[": "dict["}
OF_AIRFLOW = {"deferrable": "[operators] default_deferrable"}
"""Defaults that Airflow's configuration decides."""


def parameters(operator: type[BaseOperator]) -> dict[str, inspect.Parameter]:
    """Return all arguments that classes of this package take, the most derived first."""
    found: dict[str, inspect.Parameter] = {}
    for one in inspect.getmro(operator):
        if one.__module__.startswith("airflow_provider_dm.") and "__init__" in vars(one):
            found = {**inspect.signature(vars(one)["__init__"]).parameters, **found}
    return {name: one for name, one in found.items() if name not in ("self", "kwargs")}


def triggers() -> list[type[MetadataTrigger]]:
    """Return the triggers that the provider names."""
    modules = [m for entry in get_provider_info()["triggers"] for m in entry["python-modules"]]
    found = [one for name in modules for one in vars(importlib.import_module(name)).values() if inspect.isclass(one)]
    ours = {one: None for one in found if issubclass(one, MetadataTrigger) and not inspect.isabstract(one)}
    return [*ours]


def expected(operator: type[BaseOperator | BaseNotifier], one: inspect.Parameter) -> str:
    kind = str(one.annotation)
    for name, shown in NAMES.items():
        kind = kind.replace(name, shown)
    default = "required" if one.default is one.empty else f"default {OF_AIRFLOW.get(one.name, repr(one.default))}"
    return ", ".join([kind, default, *(["templated"] if one.name in operator.template_fields else [])])


@pytest.mark.parametrize("operator", operators(), ids=lambda one: one.__name__)
def test_every_argument_is_documented(operator: type[BaseOperator]) -> None:
    doc = inspect.cleandoc(operator.__doc__ or "")
    documented = {found["name"]: " ".join(found["kind"].split()) for found in PARAM.finditer(doc)}
    assert documented == {name: expected(operator, one) for name, one in parameters(operator).items()}
    assert "see :class:`~airflow_provider_dm.operators.base" not in doc


def test_the_arguments_of_the_notifier_are_documented() -> None:
    doc = inspect.cleandoc(DmDdlLockNotifier.__doc__ or "")
    documented = {found["name"]: " ".join(found["kind"].split()) for found in PARAM.finditer(doc)}
    given = inspect.signature(DmDdlLockNotifier.__init__).parameters.values()
    assert documented == {one.name: expected(DmDdlLockNotifier, one) for one in given if one.name != "self"}
    assert {one.kind for one in given if one.name != "self"} == {inspect.Parameter.KEYWORD_ONLY}


def test_the_arguments_of_the_task_group_are_documented() -> None:
    doc = inspect.cleandoc(DmMigrationTaskGroup.__doc__ or "")
    given = inspect.signature(DmMigrationTaskGroup.__init__).parameters
    assert [found["name"] for found in PARAM.finditer(doc)] == [one for one in given if one not in ("self", "kwargs")]


@pytest.mark.parametrize("trigger", triggers(), ids=lambda one: one.__name__)
def test_every_argument_of_a_trigger_is_documented_with_type_and_default(trigger: type[MetadataTrigger]) -> None:
    doc = inspect.cleandoc(trigger.__doc__ or "")
    documented = {found["name"]: " ".join(found["kind"].split()) for found in PARAM.finditer(doc)}
    given = {}
    for one in dataclasses.fields(trigger):
        default = one.default if one.default_factory is dataclasses.MISSING else one.default_factory()
        given[one.name] = f"{one.type}, " + ("required" if default is dataclasses.MISSING else f"default {default!r}")
    assert documented == given
    assert doc.count(":param ") == len(given)


def test_the_page_of_operators_is_what_the_docstrings_yield() -> None:
    assert (FOLDER / "operators.md").read_text() == operators_page()
