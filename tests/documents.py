"""README, docs and docstrings as tests read them: their fenced blocks, commands, links and examples."""

import doctest
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FENCE: Final = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
HERE_DOCUMENT: Final = re.compile(r"<<'(?P<end>\w+)'\n.*?^(?P=end)$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block. `kind`: its language; `mark`: what follows that."""

    page: Path
    kind: str
    mark: str
    text: str


def blocks(*pages: Path) -> Iterator[Block]:
    """Yield the fenced blocks of these pages, of all pages if none are given."""
    for page in pages or PAGES:
        for found in FENCE.finditer(page.read_text()):
            kind, _, mark = found["info"].partition(" ")
            text = re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
            yield Block(page, kind, mark, text)


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the words of each command of a shell block, without here-documents, comments and redirections."""
    text = HERE_DOCUMENT.sub("", block.text).replace("\\\n", " ")
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        while words:
            end = words.index("&&") if "&&" in words else len(words)
            yield words[:end]
            words = words[end + 1 :]


def modules_with_examples(*folders: str) -> list[str]:
    """Return the modules below these folders that have an example in a docstring."""
    files = sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    with_examples = (file.relative_to(ROOT) for file in files if "    >>> " in file.read_text())
    return [".".join(file.with_suffix("").parts) for file in with_examples]


def examples_are_true(module: str) -> None:
    """Run the examples of a module."""
    result = doctest.testmod(import_module(module))
    assert result.attempted
    assert not result.failed
