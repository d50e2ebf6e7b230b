"""The pages of docs/reference, made from the code: `python -m tests.reference` writes them, tests compare them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.reference.command_line_page import command_line_page
from tests.reference.configuration_page import configuration_page
from tests.reference.errors_page import errors_page
from tests.reference.metrics_page import metrics_page
from tests.reference.operators_page import operators_page
from tests.reference.tables_page import tables_page

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "reference"
REFERENCE: Final[Mapping[str, Callable[[], str]]] = {
    "configuration.md": configuration_page,
    "operators.md": operators_page,
    "cli.md": command_line_page,
    "tables.md": tables_page,
    "metrics.md": metrics_page,
    "errors.md": errors_page,
}
