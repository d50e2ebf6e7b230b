"""YAML text as plain data, with the line of every key and list item.

Every scalar except a bare null remains the text in the file: the field decides whether `0123` is a password or a
number, and Go, DM's language, also accepts numbers as text. Anchors, aliases and `<<` work. Duplicate keys are problems
instead of overwriting. Tags other than YAML's own are refused, so nothing is ever constructed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml

from airflow_provider_dm.engine.config.problems import Path, Problem

MAX_NODES: Final = 100_000
"""A file that expands to more nodes through aliases is an attack or a mistake."""

_CORE: Final = "tag:yaml.org,2002:"
_PLAIN: Final = frozenset(f"{_CORE}{kind}" for kind in ("str", "int", "float", "bool", "timestamp", "value", "merge"))
_QUOTED: Final = re.compile(r"""('(?:.|\\.|<[^']*>)'|"(?:.|\\.)")|'[^']*'|"[^"]*\"""")
"""Quoted text; group 1: a single character, or the parser's name of a token."""


@dataclass(frozen=True)
class YamlDocument:
    """Data of dict, list, str and None; `lines` are 1-based; `problems`: those found by the parser."""

    data: object
    lines: Mapping[Path, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def line(self, path: Path) -> int | None:
        """Return the line of the value at `path`, or of the closest enclosing value that has one."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


def read_document(text: str) -> YamlDocument:
    """Read YAML text; never raises: invalid YAML results in a document with a problem and no data."""
    try:
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        return YamlDocument(None, problems=(_syntax_problem(error),))
    except RecursionError:
        return YamlDocument(None, problems=(Problem((), "not valid YAML: it is nested too deeply", 1),))
    if root is None:
        return YamlDocument({}, {(): 1})
    return _Reader().document(root)


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    reason = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read")
    if "alias" in reason or "tag" in reason:
        reason = "a value that begins with * or ! must be quoted"
    # The text that the parser quotes may be a password.
    shown = _QUOTED.sub(lambda quoted: quoted[1] or "…", reason)
    return Problem((), f"not valid YAML: {shown}", mark.line + 1 if mark else 1)


class _Reader:
    """One walk over the node tree."""

    def __init__(self) -> None:
        self._lines: dict[Path, int] = {}
        self._problems: list[Problem] = []
        self._open: list[yaml.Node] = []
        self._nodes = 0

    def document(self, root: yaml.Node) -> YamlDocument:
        self._lines[()] = _line(root)
        data = self._value(root, ())
        return YamlDocument(data, self._lines, tuple(self._problems))

    def _value(self, node: yaml.Node, path: Path) -> object:
        self._nodes += 1
        if any(node is outer for outer in self._open) or self._nodes > MAX_NODES:
            self._refuse(node, path, "an alias that contains itself, or far too many of them")
            return None
        self._open.append(node)
        try:
            match node:
                case yaml.ScalarNode():
                    return self._scalar(node, path)
                case yaml.SequenceNode() if node.tag == f"{_CORE}seq":
                    return [self._item(item, (*path, index)) for index, item in enumerate(node.value)]
                case yaml.MappingNode() if node.tag == f"{_CORE}map":
                    return self._mapping(node, path)
                case _:
                    self._refuse(node, path, "a value that begins with ! must be quoted")
                    return None
        finally:
            self._open.pop()

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> str | None:
        if node.tag == f"{_CORE}null":
            return None
        if node.tag in _PLAIN:
            return str(node.value)
        self._refuse(node, path, "a value that begins with ! must be quoted")
        return None

    def _item(self, node: yaml.Node, path: Path) -> object:
        self._lines[path] = _line(node)
        return self._value(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        mapping: dict[str, object] = {}
        for key_node, value_node in _own_and_merged(node):
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, path, "a key must be plain text")
                continue
            key = str(key_node.value)
            here = (*path, key)
            self._lines[here] = _line(key_node)
            mapping[key] = self._value(value_node, here)
        self._report_duplicates(node, path)
        return mapping

    def _report_duplicates(self, node: yaml.MappingNode, path: Path) -> None:
        first: dict[str, int] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            key, line = str(key_node.value), _line(key_node)
            if key in first:
                text = f'the key "{key}" is given twice, first in line {first[key]}'
                self._problems.append(Problem((*path, key), text, line))
            first.setdefault(key, line)

    def _refuse(self, node: yaml.Node, path: Path, text: str) -> None:
        self._problems.append(Problem(path, text, _line(node)))


def _own_and_merged(node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yield the pairs, merged ones first: the mapping's own pairs override those of `<<`."""
    for key, value in node.value:
        if key.tag == f"{_CORE}merge":
            bases = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for base in reversed(bases):
                if isinstance(base, yaml.MappingNode) and base is not node:
                    yield from base.value
    for key, value in node.value:
        if key.tag != f"{_CORE}merge":
            yield key, value


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
