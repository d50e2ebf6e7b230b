"""Rules of the code that no linter has: parameters of a function, who sets an attribute, lines of a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("sync", "merge", "copy", "downstream")
MOST_PARAMETERS, MOST_BOOLEANS, MOST_LINES = 9, 2, 500


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    given = function.args
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
    return [one for one in every if one is not None and one.arg not in ("self", "cls")]


def crowded(tree: ast.AST) -> list[str]:
    """Return the functions with too many parameters, or too many of them that are booleans."""
    found = []
    for function in functions(tree):
        taken = parameters(function)
        booleans = [one for one in taken if one.annotation is not None and ast.unparse(one.annotation) == "bool"]
        if len(taken) > MOST_PARAMETERS or len(booleans) > MOST_BOOLEANS:
            found.append(function.name)
    return found


def set_from_outside(tree: ast.AST) -> list[str]:
    """Return the assignments to an attribute of an object other than `self`."""
    found = []
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else targets
        for target in targets:
            each = target.elts if isinstance(target, ast.Tuple) else [target]
            attributes = [one for one in each if isinstance(one, ast.Attribute)]
            found += [ast.unparse(one) for one in attributes if ast.unparse(one.value) != "self"]
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_function_has_few_parameters_and_an_attribute_is_set_by_its_own_object(room: str) -> None:
    for file in sorted((ROOT / "airflow_provider_dm" / "engine" / room).rglob("*.py")):
        tree = ast.parse(file.read_text())
        assert crowded(tree) == [], file
        assert set_from_outside(tree) == [], file


def test_these_rules_find_what_breaks_them() -> None:
    many = "def one(self, a, b, c, *, d, e, f, g, h, i, **j): ...\ndef two(a: bool, b: bool, *, c: bool): ..."
    assert crowded(ast.parse(many)) == ["one", "two"]
    assert crowded(ast.parse("def one(self, a, b, c, *, d: bool, e: bool, f, g, h, i): ...")) == []
    assigned = "class A:\n def b(self):\n  self.c, other.d = 1, 2\n  self.e.f += 1\n  g = 2\n  h.i: int = 3"
    assert set_from_outside(ast.parse(assigned)) == ["other.d", "self.e.f", "h.i"]


def test_a_file_is_no_longer_than_a_person_reads() -> None:
    files = [file for room in ("airflow_provider_dm", "spark_apps", "tests") for file in (ROOT / room).rglob("*.py")]
    assert [str(file.relative_to(ROOT)) for file in files if len(file.read_text().splitlines()) > MOST_LINES] == []
