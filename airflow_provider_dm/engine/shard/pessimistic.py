"""Pessimistic coordination: every shard makes the same DDL, and it runs once, when the last of them has come to it.

`coordinate` is what sync asks. Until groups and locks exist its only answer is to stop at that location, where nothing
is lost and the same question is asked again after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from airflow_provider_dm.engine.ddl.statements import Statement
from airflow_provider_dm.engine.errors import NotSupportedYet, Scope
from airflow_provider_dm.engine.mysql.location import Location


@dataclass(frozen=True)
class ShardDdl:
    """The DDL that one shard has come to. `statement`: None where it is not understood to its end.

    `head`: its first words, for messages, as literals in it may be data.
    """

    task: str
    source: str
    at: Location
    statement: Statement | None
    head: str
    why: str
    """Why it concerns the task."""


@dataclass(eq=False)
class ShardDdlNotSupported(NotSupportedYet):
    """A DDL that shards would have to agree on."""

    code: ClassVar[str] = "DM-6050"
    scope: ClassVar[Scope] = Scope.UPSTREAM


def coordinate(news: ShardDdl) -> NoReturn:
    """Stop at a shard's DDL, as groups and locks do not exist yet. Raises ShardDdlNotSupported."""
    raise ShardDdlNotSupported(
        feature=f"shard-mode pessimistic for DDL ({news.head} …: {news.why})",
        where=f"task {news.task}, source {news.source}, at {news.at}",
        way_out="Run the full migration again, as another task, when all shards have made the change.",
    )
