"""Each page of docs/reference is what the code yields; `./docker/local reference` writes them anew.

The page of operators, which needs Airflow, is compared in `tests/airflow/test_reference.py`."""

import pytest

from tests.reference import FOLDER, REFERENCE


@pytest.mark.parametrize("name", [name for name in REFERENCE if name != "operators.md"])
def test_a_reference_page_is_what_the_code_yields(name: str) -> None:
    assert (FOLDER / name).read_text() == REFERENCE[name]()


def test_every_page_of_the_reference_is_generated() -> None:
    assert {page.name for page in FOLDER.iterdir()} == set(REFERENCE)
