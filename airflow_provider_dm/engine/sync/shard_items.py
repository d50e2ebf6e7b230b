"""How the target makes the DDL of a shard: statements and session, as JSON in its item (`shard.group.Item.how`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.pinned import Setting
from airflow_provider_dm.engine.shard.group import Item
from airflow_provider_dm.engine.target.ddl_execution import TargetDdl

Json = dict[str, Any]


def said_of(statement: TargetDdl) -> Json:
    """Return a statement for the target as JSON."""
    names = [list(name) for name in statement.tables]
    return {
        "sql": statement.sql,
        "tables": names,
        "parts": list(statement.parts),
        "keyless": statement.keyless,
        "alike": statement.alike,
        "divisible": statement.divisible,
        "renames": [[list(old), list(new)] for old, new in statement.renames],
        "new": [[list(table), column] for table, column in statement.new],
    }


def statement_of(said: Json) -> TargetDdl:
    """Return what `said_of` has said."""
    names = tuple(TableName(*name) for name in said["tables"])
    renames = tuple((TableName(*old), TableName(*new)) for old, new in said["renames"])
    new = tuple((TableName(*table), column) for table, column in said.get("new", ()))  # older ones do not say it
    return TargetDdl(
        said["sql"], names, tuple(said["parts"]), said["keyless"], said["alike"], said["divisible"], renames, new
    )


def settings_of(session: Sequence[Setting]) -> list[list[str | int | float | None]]:
    """Return the settings that statements are run with as JSON."""
    return [[one.name, one.value] for one in session]


def made_at(item: Item) -> float | None:
    """Return when a shard has made a DDL, by its server's clock, in seconds since 1970; None: it was not taken down."""
    said: list[list[Any]] = item.how.get("session", [])
    return next((float(value) for name, value in said if name == "timestamp"), None)
