"""docs/reference/configuration.md: every key of a task.yaml and a source.yaml, connection fields, and `[dm]`.

The meaning of a key is the docstring below its field."""

import ast
import inspect
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from airflow_provider_dm.engine.config.base import DmModel, aliases_of, seconds
from airflow_provider_dm.engine.config.rule_models import FILTER_EVENTS, FilterRule
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.get_provider_info import get_provider_info
from tests.reference.markdown import cell, first_paragraph, head, page, table

ABOUT: Final = """\
DM's `task.yaml` and `source.yaml` run as they are. A key without a value counts as not given; an unknown key is refused
(DM-1001) with its line. A duration is a text like `1m30s`, or a number of seconds.

- *Extension*: a key that DM does not have.
- *Without effect*: a key that is accepted, as DM's files have it, and changes nothing.
- *Refused*: a key or value that ends in DM-1900 before anything runs ([limits](../limits.md#task-and-source-files))."""
TITLES: Final = {
    "MysqlInstance": "mysql-instances: one of the list",
    "StartMeta": "meta of a mysql-instance",
    "BlockAllowConfig": "block-allow-list: one of its entries",
    "TablePattern": "do-tables, ignore-tables: one of the list",
    "RouteRule": "routes: one of its entries",
    "ExtractColumn": "extract-table, extract-schema, extract-source of a route",
    "FilterRule": "filters: one of its entries",
    "ExpressionFilter": "expression-filter: one of its entries",
    "MydumperConfig": "mydumpers: one of its entries",
    "LoaderConfig": "loaders: one of its entries",
    "SyncerConfig": "syncers: one of its entries",
    "ValidatorConfig": "validators: one of its entries",
    "TargetDatabase": "target-database",
    "DatabaseConfig": "from",
    "Security": "security of `from` and `target-database`",
    "Experimental": "experimental",
    "MariadbSchemas": "mariadb2tidb",
    "TidbConfig": "tidb",
    "PurgeConfig": "purge",
    "CheckerConfig": "checker",
}
NAMES: Final = {str: "text", int: "number", float: "number", bool: "true, false", object: "any", SecretStr: "text"}
WITHOUT_EFFECT: Final = "Without effect"


def configuration_page() -> str:
    lines = head("Configuration", ABOUT)
    seen: set[type[DmModel]] = set()
    for title, model in (("task.yaml", TaskConfig), ("source.yaml", SourceConfig)):
        lines += [f"## {title}", "", *_keys(model)]
        for below in dict.fromkeys(models(model)):
            if below is not model and below not in seen:
                seen.add(below)
                about = first_paragraph(below)
                lines += [f"### {TITLES[below.__name__]}", "", *([cell(about), ""] if about else []), *_keys(below)]
                if below is FilterRule:
                    lines += [f"Events: {', '.join(f'`{one}`' for one in sorted(FILTER_EVENTS))}.", ""]
    return page([*lines, *_airflow()])


def is_without_effect(model: type[DmModel], field: str) -> bool:
    """Return True if the docstring of a field declares that its key changes nothing."""
    return meanings(model)[field].startswith(WITHOUT_EFFECT)


def meanings(model: type[DmModel]) -> dict[str, str]:
    """Return field -> the docstring below it, of a model and of the models that it extends.

    "Without effect" holds for all fields directly above that have no docstring.
    """
    found: dict[str, str] = {}
    for one in reversed([kind for kind in model.__mro__ if kind.__module__.startswith("airflow_provider_dm")]):
        (tree,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(one))).body
        assert isinstance(tree, ast.ClassDef)
        above: list[str] = []
        for part in tree.body:
            match part:
                case ast.AnnAssign(target=ast.Name(name)):
                    above.append(name)
                case ast.Expr(value=ast.Constant(value=str(text))) if above:
                    explained = " ".join(text.split())
                    found |= dict.fromkeys(above if explained.startswith(WITHOUT_EFFECT) else above[-1:], explained)
                    above = []
    return {name: text for name, text in found.items() if name in model.model_fields}


def _keys(model: type[DmModel]) -> list[str]:
    explained = meanings(model)
    rows: list[tuple[str, ...]] = []
    for name, field in model.model_fields.items():
        key, *older = aliases_of(model, name)
        shown = f"`{key}`" + (f" (also `{'`, `'.join(older)}`)" if older else "")
        if rows and rows[-1][-1] == explained[name]:
            rows[-1] = (f"{rows[-1][0]}, {shown}", "", "", explained[name])
        else:
            rows.append((shown, _values(field), _default(field), explained[name]))
    return table(("key", "value", "default", "meaning"), [(*row[:-1], cell(row[-1])) for row in rows])


def models(annotation: Any) -> Iterator[type[DmModel]]:
    if isinstance(annotation, type) and issubclass(annotation, DmModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models(field.annotation)
    for argument in get_args(annotation):
        yield from models(argument)


def _values(field: FieldInfo) -> str:
    """Return the values that a key takes, for users."""
    if any(getattr(one, "func", None) is seconds for one in field.metadata):
        return "duration"
    return _kind(field.annotation)


def _kind(annotation: Any) -> str:
    """Return the values of a type, for users.

    >>> _kind(dict[str, int]), _kind(Literal["a", "b"]), _kind(tuple[str, ...]), _kind(int | None)
    ('entries by name', '`a`, `b`', 'list of text', 'number')
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(_kind(one) for one in arguments if one is not type(None))
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in arguments if one)
    if origin is tuple:
        return f"list of {_kind(arguments[0])}"
    if origin is dict:
        return "mapping" if arguments[1] in (str, object) else "entries by name"
    if issubclass(annotation, Enum):
        return ", ".join(f"`{one.value}`" for one in annotation if one.value)
    return "mapping" if issubclass(annotation, DmModel) else NAMES[annotation]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Enum):
        value = value.value
    if value in (None, "", (), {}) or isinstance(value, DmModel):
        return ""
    shown = str(value).lower() if isinstance(value, bool) else str(value).removesuffix(".0")
    return f"`{shown}`"


def _airflow() -> Iterator[str]:
    """Yield the sections about Airflow, from the provider's metadata."""
    info = get_provider_info()
    yield from ("## Airflow", "", "### Configuration section `[dm]`", "")
    options = info["config"]["dm"]["options"]
    yield from table(
        ("option", "default", "meaning"),
        [
            (f"`{name}`", f"`{one['default']}`" if one["default"] else "", cell(one["description"]))
            for name, one in options.items()
        ],
    )
    for kind in info["connection-types"]:
        yield from (f"### Extras of a connection of type `{kind['connection-type']}`", "")
        fields: Mapping[str, Any] = kind["conn-fields"]
        rows = [(f"`{name}`", cell(one["label"]), cell(one.get("description", ""))) for name, one in fields.items()]
        yield from table(("extra", "field of the form", "meaning"), rows)
