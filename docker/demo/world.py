"""Everything the demo's DAG talks to: two sources with their shards, a target, an Airflow that knows them."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo.shops import ALTERED, ENTITIES, TARGET_SCHEMA, Shard, begin_new_binlog, fill, rows_per_shard
from demo.writer import Writer, prepare_control
from testbed.airflow import Airflow, AirflowSpec, attach_airflow, start_airflow
from testbed.equality import Comparison, Place, Report, compare
from testbed.servers import Server, ServerSpec, attach_servers, start_servers, stop_servers

SOURCES: Final = ("mariadb-01", "mysql-02")
TARGET: Final = "target"
TARGET_CONNECTION: Final = "dm_target_default"
DAG_ID: Final = "dm_demo"
META_SCHEMA: Final = "dm_meta"
DAGS: Final = Path(__file__).resolve().parents[2] / "dags"
ACCOUNT: Final = "dm"

SOURCE_PRIVILEGES: Final = "SELECT, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT"
TARGET_PRIVILEGES: Final = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES"
_CONTROL_PRIVILEGES: Final = "UPDATE"
_SOURCES: Final = (ServerSpec(SOURCES[0], "mariadb"), ServerSpec(SOURCES[1], "mysql"))
TARGETS: Final[Mapping[str, ServerSpec]] = {
    "mysql": ServerSpec(TARGET, "mysql", options=("--innodb-buffer-pool-size=512M",), binlog=False),
    "tidb": ServerSpec(TARGET, "tidb"),
}
_SHARDS_PER_SOURCE: Final = 2


@dataclass(eq=False)
class World:
    """Servers and Airflow that are running, and the shards on them."""

    home: Path
    servers: Mapping[str, Server]
    airflow: Airflow
    rows: int

    @property
    def target(self) -> Server:
        return self.servers[TARGET]

    @property
    def metadata(self) -> Path:
        """The metadata DB that the provider makes where no connection names one."""
        return self.home / "work/meta.db"

    @property
    def shards(self) -> list[Shard]:
        return shards_of(self.servers)

    @property
    def counts(self) -> dict[str, int]:
        return rows_per_shard(self.rows, len(self.shards))

    def writers(self, *, per_second: int) -> list[Writer]:
        """Return one writer for each source, not yet started."""
        shards = self.shards
        return [
            Writer(server, [s for s in shards if s.source is server], self.counts, per_second=per_second)
            for server in (self.servers[name] for name in SOURCES)
        ]

    def compare(self) -> Report:
        """Compare every row of every shard with the target's tables. The sources must be quiet."""
        merged = [self._comparison(self.shards, entity, entity) for entity in ENTITIES]
        return compare(merged + [self._comparison([shard], ALTERED, shard.name(ALTERED)) for shard in self.shards])

    def _comparison(self, shards: Sequence[Shard], entity: str, target: str) -> Comparison:
        return Comparison(
            tuple(Place(shard.source.client_config(), shard.table(entity)) for shard in shards),
            Place(self.target.client_config(), f"{TARGET_SCHEMA}.{target}"),
        )

    def stop(self) -> None:
        """Stop all of it; its folder is removed."""
        self.airflow.stop()
        stop_servers(list(self.servers.values()))
        shutil.rmtree(self.home, ignore_errors=True)


def shards_of(servers: Mapping[str, Server]) -> list[Shard]:
    """Return shards 1 and 2 on the first source, 3 and 4 on the second."""
    numbers = range(1, len(SOURCES) * _SHARDS_PER_SOURCE + 1)
    return [Shard(number, servers[SOURCES[(number - 1) // _SHARDS_PER_SOURCE]]) for number in numbers]


def fill_shards(servers: Mapping[str, Server], rows: int) -> int:
    """Fill all shards with `rows` together, both sources at once; returns how many there are now."""
    shards = shards_of(servers)
    counts = rows_per_shard(rows, len(shards))

    def fill_source(name: str) -> int:
        filled = sum(fill(shard, counts) for shard in shards if shard.source is servers[name])
        prepare_control(servers[name])
        begin_new_binlog(servers[name])
        return filled

    with ThreadPoolExecutor(max_workers=len(SOURCES)) as pool:
        return sum(pool.map(fill_source, SOURCES))


def start_world_servers(home: Path, target: str, *, keep: bool) -> dict[str, Server]:
    """Start the two sources and the target, at once. Raises ServerUnavailable or ServerStartFailed."""
    servers = start_servers([*_SOURCES, TARGETS[target]], home / "servers", keep=keep)
    return {server.name: server for server in servers}


def start_world_airflow(home: Path, servers: Mapping[str, Server], *, keep: bool) -> Airflow:
    """Start an Airflow whose connections are the servers, under an account with no more rights than it needs."""
    airflow = start_airflow(
        AirflowSpec(home=home / "airflow", dags=DAGS, environment={"AIRFLOW__DM__WORK_DIR": str(home / "work")}),
        keep=keep,
    )
    password = secrets.token_urlsafe(16)
    for name in SOURCES:
        servers[name].create_user(ACCOUNT, password, privileges=SOURCE_PRIVILEGES)
        servers[name].sql(f"GRANT {_CONTROL_PRIVILEGES} ON dm_demo_control.* TO '{ACCOUNT}'@'%'")
    servers[TARGET].create_user(ACCOUNT, password, privileges=TARGET_PRIVILEGES)
    for name, connection_id in (*((name, name) for name in SOURCES), (TARGET, TARGET_CONNECTION)):
        airflow.api.put_connection(
            connection_id,
            conn_type="dm_database",
            host=servers[name].host,
            port=servers[name].port,
            login=ACCOUNT,
            password=password,
        )
    return airflow


def remember(world: World) -> None:
    """Leave a note for `attach_world`."""
    (world.home / "world.json").write_text(json.dumps({"rows": world.rows}), encoding="utf-8")


def attach_world(home: Path) -> World:
    """Return a world that an earlier process left running. Raises OSError when there is none."""
    known = json.loads((home / "world.json").read_text(encoding="utf-8"))
    servers = {server.name: server for server in attach_servers(home / "servers")}
    return World(home, servers, attach_airflow(home / "airflow"), known["rows"])
