"""What a sync in the world of ddl_world.py has around it where its tables take the rows of others: the engine's own
`Sharing`, over the model's target and the histories of the sources.

Sources are asked for rows at the end of time: what they say then stays so. For the ends of their logs they are asked at
some moment of the world, before rows go from one source to another or after that.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from airflow_provider_dm.engine.downstream.contested_row import ContestedRow
from airflow_provider_dm.engine.downstream.session import run_transaction, target_connection
from airflow_provider_dm.engine.downstream.shard_groups import HeldShard
from airflow_provider_dm.engine.downstream.subtask import read_subtask
from airflow_provider_dm.engine.downstream.table_schema import Feeder, load_feeders, load_table_schemas
from airflow_provider_dm.engine.merge.contests import Contests
from airflow_provider_dm.engine.merge.owner_writer import MOST_WHILE_SYNCING, TargetAccess
from airflow_provider_dm.engine.merge.servers import KeyHolder, KeyValues, find_holders
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.sync.sharing import Sharing
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from tests.unit.sync.ddl_history import History, place_of
from tests.unit.sync.ddl_ways import Way


class Shared(Protocol):
    """Part of the world that it needs."""

    clock: float
    way: Way

    @property
    def access(self) -> TargetAccess: ...

    @property
    def histories(self) -> Mapping[str, History]: ...

    def table_in_target(self, name: TableName) -> Table: ...

    def ends(self) -> Mapping[str, int]:
        """Return where the logs of all sources end at some moment."""
        ...


@dataclass(frozen=True)
class Around:
    """Answers to what a sync asks."""

    world: Shared
    source: SyncSource

    @property
    def transactions(self) -> Any:
        return partial(run_transaction, self.source.target)

    @property
    def connection(self) -> Connection:
        return target_connection(self.source.target)

    def access(self) -> TargetAccess:
        return self.world.access

    def mapped(self, source: str, table: TableName, target: TableName) -> TableMapping:
        schemas = load_table_schemas(self.connection, self.source.fence.ref.of_source(source))
        (found,) = [one.table for one in schemas if one.table.name == table]
        return map_table(found, self.world.table_in_target(target))

    def feeders(self) -> list[Feeder]:
        return load_feeders(self.connection, self.source.fence.ref)

    def held_shards(self, target: TableName) -> list[HeldShard]:
        return []

    def is_releasing(self, target: TableName) -> bool:
        return False

    def forget_mappings(self) -> None:
        """Forget nothing: they are made anew each time."""

    def ends(self, sources: Collection[str]) -> dict[str, Location]:
        ends = self.world.ends()
        return {source: place_of(ends[source]) for source in sources}

    def applied(self, source: str) -> Location | None:
        subtask = read_subtask(self.connection, self.source.fence.ref.of_source(source))
        return subtask.location if subtask is not None and subtask.exact else None

    def now(self) -> float:
        return self.world.clock

    # Answers

    def holders(self, row: ContestedRow, mapping: TableMapping) -> list[KeyHolder]:
        return find_holders(row, mapping, self.connection, self.access().select)

    def has(self, source: str, table: TableName, values: KeyValues, typed: Table) -> bool | None:
        there = self.world.histories[source].tables.rows.get(table)
        if there is None:
            return None
        return any(all(_same(row[name], value) for name, value in values.items()) for row in there)


def _same(held: str | None, asked: bytes | None) -> bool:
    return held is not None and asked is not None and held.lower() == asked.decode().lower()


def sharing_of(world: Shared, source: SyncSource) -> Sharing:
    """Return what `Sharing.of` would, in the world."""
    around: Any = Around(world, source)
    job = source.job
    safe = {name: job.subtask(name).syncer.safe_mode for name in job.task.source_ids}
    contests = Contests(source.fence, around, MOST_WHILE_SYNCING)
    return Sharing(contests, several=len(world.histories) > 1, lawful=True, safe=safe)
