"""Print which attributes of the configuration's models the code reads, as mypy infers the types: [[model, field], …].

A process of its own: mypy keeps the types of all expressions in memory. The code is what imports those models: of what
that imports mypy sees the signatures only, which saves a third of its time."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mypy.build import build
from mypy.config_parser import parse_config_file
from mypy.find_sources import create_source_list
from mypy.nodes import MemberExpr
from mypy.options import Options
from mypy.types import Instance, Type, UnionType, get_proper_type

ROOT: Final = Path(__file__).parents[3]
MODELS: Final = "airflow_provider_dm.engine.config"
LIBRARIES: Final = (
    *("airflow", "alembic", "cryptography", "llvmlite", "numba", "numpy", "pyarrow", "pydantic", "pydantic_core"),
    *("pyspark", "rich", "sqlalchemy"),
)
READERS: Final = ("airflow_provider_dm/engine", "airflow_provider_dm/launch", "airflow_provider_dm/cli", "spark_apps")


def instances(found: Type | None) -> Iterator[Instance]:
    proper = get_proper_type(found)
    for one in proper.items if isinstance(proper, UnionType) else [proper]:
        part = get_proper_type(one)
        if isinstance(part, Instance):
            yield part


def main() -> None:
    options = Options()
    parse_config_file(options, lambda: None, str(ROOT / "pyproject.toml"), sys.stderr, sys.stderr)
    options.export_types = True
    options.incremental = False
    options.follow_imports = "silent"
    for library in LIBRARIES:  # their types say nothing of our models
        options.per_module_options[f"{library}.*"] = {"follow_imports": "skip"}
    options.build_per_module_cache()
    readers = [str(path) for one in READERS for path in (ROOT / one).rglob("*.py") if MODELS in path.read_text()]
    types = build(create_source_list(readers, options), options).types
    reads = {
        (base.name, expression.name)
        for expression in types
        if isinstance(expression, MemberExpr)
        for one in instances(types.get(expression.expr))
        for base in one.type.mro
        if base.fullname.startswith(f"{MODELS}.")
    }
    print(json.dumps(sorted(reads)))


if __name__ == "__main__":
    main()
