"""What shards of a merged table cannot agree on: where the sync stops, as it does for any DDL that it cannot follow."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_dm.engine.errors import NotSupportedYet, Scope
from airflow_provider_dm.engine.mysql.location import Location


@dataclass(frozen=True)
class ShardDdl:
    """The DDL that one shard has come to. `head`: its first words, for messages, as literals in it may be data.

    `why`: it is not for all shards to make.
    """

    task: str
    source: str
    at: Location
    head: str
    why: str


class ShardDdlNotSupported(NotSupportedYet):
    """A DDL of one shard that the others cannot make with it."""

    code = "DM-6050"
    scope = Scope.UPSTREAM


def refusal(news: ShardDdl) -> ShardDdlNotSupported:
    """Return the error for a shard's DDL that is not coordinated."""
    return ShardDdlNotSupported(
        feature=f"shard-mode pessimistic for DDL ({news.head} …: {news.why})",
        where=f"task {news.task}, source {news.source}, at {news.at}",
        way_out="Run the full migration again, as another task, when all shards have made the change.",
    )
