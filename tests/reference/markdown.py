"""The parts of a generated page: its head, tables, and cells that may hold any text."""

import inspect
import re
from collections.abc import Iterable, Sequence


def head(title: str, about: str) -> list[str]:
    """Return the beginning of a page."""
    renew = "*Generated from the code: `./docker/local reference` renews this page, and a test compares it.*"
    return [f"# {title}", "", about, "", renew, ""]


def cell(text: str) -> str:
    """Return a text as one cell of a table.

    >>> cell("a | b\\n  <c> and `<d>`")
    'a \\\\| b &lt;c> and `<d>`'
    """
    words = re.split(r"(`[^`]*`)", " ".join(text.split()).replace("|", "\\|"))
    return "".join(word if word.startswith("`") else word.replace("<", "&lt;") for word in words)


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, and an empty one after it; cells are Markdown."""
    return [
        f"| {' | '.join(names)} |",
        f"|{'---|' * len(names)}",
        *("|" + "".join(f" {one} |" if one else " |" for one in row) for row in rows),
        "",
    ]


def first_paragraph(documented: object) -> str:
    """Return the first paragraph of a docstring, as one line; "" if the class has none of its own."""
    doc = inspect.cleandoc(getattr(documented, "__doc__", None) or "")
    name = getattr(documented, "__name__", "")
    return "" if doc.startswith(f"{name}(") else " ".join(doc.split("\n\n")[0].split())


def page(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"
