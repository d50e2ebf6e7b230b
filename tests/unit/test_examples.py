"""The examples in docstrings are run; those of modules that import Airflow in tests/airflow/test_provider_info.py."""

import pytest

from tests.documents import examples_are_true, modules_with_examples

ROOMS = [f"airflow_provider_dm/{room}" for room in ("engine", "cli", "launch", "links")]


@pytest.mark.parametrize("module", modules_with_examples("spark_apps", *ROOMS))
def test_the_examples_in_docstrings_are_correct(module: str) -> None:
    examples_are_true(module)
