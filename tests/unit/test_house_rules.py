"""Rules of the code that no linter has: parameters of a function, who sets an attribute, lines of a file.

Operators, sensors and task groups of Airflow have as many keyword parameters and booleans as Airflow's conventions ask
for. Compiled kernels take numbers and arrays by position."""

import ast
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("airflow_provider_dm", "spark_apps")
OF_AIRFLOW = ("operators", "sensors", "task_groups")
KERNELS = "kernels"
OWN_REASONS = {
    "_expect": "a condition comes first, as in `assert`",
    "_read_query_result": "the signature is pymysql's",
    "SourceOptions": "a field is an option of the data source",
    "Subtask": "a field is a column of dm_subtask",
    "SubtaskConfig": "a field is a part of a task's configuration",
}
MUTABLE = ("binlog", "ddl", "expressions")
"""Scanners and parsers advance a state that several functions share."""
OF_LIBRARIES = ("airflow_commands.py", "cli", "launch", "meta", "mysql")
"""Attributes of a parser, an archive, a connection or a TLS context are a library's way to configure it."""
MOST_PARAMETERS, MOST_LINES = 8, 500


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    given = function.args
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
    return [one for one in every if one is not None and one.arg not in ("self", "cls")]


def given_fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    """Return the fields of a dataclass without a default: they are the parameters that each caller gives."""
    is_value = any("dataclass" in ast.unparse(one) for one in node.decorator_list)
    return [one for one in node.body if is_value and isinstance(one, ast.AnnAssign) and one.value is None]


def is_boolean(parameter: ast.arg) -> bool:
    return parameter.annotation is not None and ast.unparse(parameter.annotation) == "bool"


def crowded(tree: ast.AST) -> list[str]:
    """Return the functions with too many parameters, with several booleans, or with one that is given by position, and
    the dataclasses with too many parameters."""
    found = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and len(given_fields(node)) > MOST_PARAMETERS
    ]
    for function in functions(tree):
        taken = parameters(function)
        by_position = any(map(is_boolean, (*function.args.posonlyargs, *function.args.args)))
        if len(taken) > MOST_PARAMETERS or sum(map(is_boolean, taken)) > 1 or by_position:
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


def broken(rule: Callable[[ast.AST], list[str]], *, but_in: Collection[str]) -> dict[str, list[str]]:
    """Return what breaks a rule, by file. `but_in`: folders and files that it does not concern."""
    files = [file.relative_to(ROOT) for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    found = {str(file): rule(tree_of(file)) for file in files if not {*but_in} & {*file.parts}}
    return {file: some for file, some in found.items() if some}


@cache
def tree_of(file: Path) -> ast.AST:
    return ast.parse((ROOT / file).read_text())


def test_a_function_has_few_parameters_and_one_keyword_boolean() -> None:
    found = broken(crowded, but_in=(*OF_AIRFLOW, KERNELS))
    assert {name for some in found.values() for name in some} <= OWN_REASONS.keys(), found


def test_an_attribute_is_set_by_its_own_object() -> None:
    assert broken(set_from_outside, but_in=(*MUTABLE, *OF_LIBRARIES)) == {}


def test_the_house_rules_detect_violations() -> None:
    many = "def one(self, a, b, c, *, d, e, f, g, h, **i): ...\ndef two(*, b: bool, c: bool): ..."
    assert crowded(ast.parse(many)) == ["one", "two"]
    assert crowded(ast.parse("def one(a: bool): ...")) == ["one"]
    assert crowded(ast.parse("def one(self, a, b, c, *, d: bool, e, f, g, h): ...")) == []
    fields = "".join(f"\n {name}: int" for name in "abcdefgh")
    assert crowded(ast.parse(f"@dataclass(frozen=True)\nclass A:{fields}\n j: int = 0")) == []
    assert crowded(ast.parse(f"@dataclass\nclass A:{fields}\n j: int")) == ["A"]
    assigned = "class A:\n def b(self):\n  self.c, other.d = 1, 2\n  self.e.f += 1\n  g = 2\n  h.i: int = 3"
    assert set_from_outside(ast.parse(assigned)) == ["other.d", "self.e.f", "h.i"]


def test_a_file_has_at_most_500_lines() -> None:
    files = [file for room in ("airflow_provider_dm", "spark_apps", "tests") for file in (ROOT / room).rglob("*.py")]
    assert [str(file.relative_to(ROOT)) for file in files if len(file.read_text().splitlines()) > MOST_LINES] == []
