"""The keys that a document may contain at each path: derived from the models, so that messages agree with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from airflow_provider_dm.engine.config.base import Strict, aliases_of
from airflow_provider_dm.engine.config.problems import Path

Model = type[Strict]


def fields_by_key(model: Model) -> dict[str, FieldInfo]:
    """Return the field of every key that a file may use, DM's present names first."""
    fields = model.model_fields
    present = {aliases_of(model, name)[0]: info for name, info in fields.items()}
    older = {alias: info for name, info in fields.items() for alias in aliases_of(model, name)[1:]}
    return present | older


def mappings(model: Model, data: object, path: Path = ()) -> Iterator[tuple[Path, Model, Mapping[str, object]]]:
    """Yield every mapping of the document that a model describes, from the top down."""
    if not isinstance(data, Mapping):
        return
    yield path, model, data
    for key, info in fields_by_key(model).items():
        if key in data:
            yield from _inside(info.annotation, data[key], (*path, key))


def field_at(model: Model, path: Path) -> FieldInfo | None:
    """Return the field for the last key of `path`; None if no model describes it."""
    field: FieldInfo | None = None
    annotation: Any = model
    for part in path:
        annotation = _plain(annotation)
        if isinstance(annotation, type) and issubclass(annotation, Strict):
            field = fields_by_key(annotation).get(str(part)) or annotation.model_fields.get(str(part))
            if field is None:
                return None
            annotation = field.annotation
        else:
            arguments = [argument for argument in get_args(annotation) if argument is not Ellipsis]
            if not arguments:
                return field
            annotation = arguments[-1]
    return field


def _inside(annotation: Any, value: object, path: Path) -> Iterator[tuple[Path, Model, Mapping[str, object]]]:
    annotation = _plain(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        yield from mappings(annotation, value, path)
    elif get_origin(annotation) is tuple and isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _inside(get_args(annotation)[0], item, (*path, index))
    elif get_origin(annotation) is dict and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _inside(get_args(annotation)[1], item, (*path, key))


def _plain(annotation: Any) -> Any:
    """Return the annotation without `Annotated` and `| None`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, UnionType):
            annotation = next(part for part in get_args(annotation) if part is not NoneType)
        else:
            return annotation
