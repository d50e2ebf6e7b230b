"""The tables that DM leaves in a target, written as DM and TiDB write them, without code of the product."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from airflow_provider_dm.engine.mysql.location import Location
from testbed import Server

CREATE = """(
    id VARCHAR(32) NOT NULL,
    cp_schema VARCHAR(128) NOT NULL,
    cp_table VARCHAR(128) NOT NULL,
    binlog_name VARCHAR(128),
    binlog_pos INT UNSIGNED,
    binlog_gtid TEXT,
    exit_safe_binlog_name VARCHAR(128) DEFAULT '',
    exit_safe_binlog_pos INT UNSIGNED DEFAULT 0,
    exit_safe_binlog_gtid TEXT,
    table_info JSON NOT NULL,
    is_global BOOLEAN,
    create_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
    update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    UNIQUE KEY uk_id_schema_table (id, cp_schema, cp_table)
)"""
POINT = "binlog_name, binlog_pos, binlog_gtid"
EXIT = "exit_safe_binlog_name, exit_safe_binlog_pos, exit_safe_binlog_gtid"

INT, LONG, VARCHAR = 3, 8, 15
NOT_NULL_KEY = 4099  # PRI_KEY, NOT NULL, NO DEFAULT


def column(name: str, kind: int, *, length: int = -1, flag: int = 0, collate: str = "binary") -> dict[str, Any]:
    """A column in the format of TiDB's ColumnInfo, with all of its empty fields."""
    charset = collate.partition("_")[0]
    return {
        "id": 1, "name": {"O": name, "L": name.lower()}, "offset": 0, "origin_default": None,
        "origin_default_bit": None, "default": None, "default_bit": None, "default_is_expr": False,
        "generated_expr_string": "", "generated_stored": False, "dependences": None,
        "type": {"Tp": kind, "Flag": flag, "Flen": length, "Decimal": 0 if kind in (INT, LONG) else -1,
                 "Charset": charset, "Collate": collate, "Elems": None, "ElemsIsBinaryLit": None, "Array": False},
        "state": 5, "comment": "", "hidden": False, "change_state_info": None, "version": 2,
    }  # fmt: skip


def index(name: str, columns: tuple[str, ...], *, unique: bool = False, primary: bool = False) -> dict[str, Any]:
    """An index as TiDB's IndexInfo is written."""
    parts = [{"name": {"O": one, "L": one.lower()}, "offset": 0, "length": -1} for one in columns]
    return {
        "id": 1, "idx_name": {"O": name, "L": name.lower()}, "tbl_name": {"O": "", "L": ""}, "idx_cols": parts,
        "state": 5, "backfill_state": 0, "comment": "", "index_type": 1, "is_unique": unique, "is_primary": primary,
        "is_invisible": False, "is_global": False, "mv_index": False, "vector_index": None, "inverted_index": None,
    }  # fmt: skip


def table_info(name: str, columns: list[dict[str, Any]], indices: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A table as TiDB's TableInfo is written."""
    cols = [{**one, "id": number + 1, "offset": number} for number, one in enumerate(columns)]
    return {
        "id": 77, "name": {"O": name, "L": name.lower()}, "charset": "utf8mb4", "collate": "utf8mb4_bin", "cols": cols,
        "index_info": indices, "constraint_info": None, "fk_info": None, "state": 5, "pk_is_handle": not indices,
        "is_common_handle": False, "common_handle_version": 0, "comment": "", "auto_inc_id": 0, "auto_id_cache": 0,
        "auto_rand_id": 0, "max_col_id": len(cols), "max_idx_id": 1, "max_fk_id": 0, "max_cst_id": 0,
        "update_timestamp": 445566778899, "ShardRowIDBits": 0, "max_shard_row_id_bits": 0, "auto_random_bits": 0,
        "auto_random_range_bits": 0, "pre_split_regions": 0, "partition": None, "compression": "", "view": None,
        "sequence": None, "Lock": None, "version": 5, "tiflash_replica": None, "is_columnar": False,
        "temp_table_type": 0, "cache_table_status": 0, "policy_ref_info": None, "stats_options": None,
        "exchange_partition_info": None, "ttl_info": None, "revision": 0,
    }  # fmt: skip


@dataclass(frozen=True)
class DmTable:
    """DM's checkpoint table of a task. `relay_suffix`: files are named as in a relay log, `mysql-bin|000002.000003`."""

    target: Server
    meta_schema: str
    task: str = "test"
    source: str = "s1"
    relay_suffix: int = 0

    @property
    def name(self) -> str:
        task = self.task.replace("`", "``")
        return f"`{self.meta_schema}`.`{task}_syncer_checkpoint`"

    def create(self) -> None:
        self.target.sql(f"CREATE DATABASE IF NOT EXISTS `{self.meta_schema}`")
        self.target.sql(f"CREATE TABLE IF NOT EXISTS {self.name} {CREATE}")

    def put(
        self,
        at: Location,
        *,
        table: tuple[str, str] | None = None,
        info: Mapping[str, Any] | None = None,
        leaving: Location | None = None,
    ) -> Self:
        """Write the global point, or that of a table, as DM did it a day ago."""
        says = [*self._cells(at), *(self._cells(leaving) if leaving is not None else ("", 0, ""))]
        key = table or ("", "")
        with self.target.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {self.name.replace('%', '%%')} "
                f"(id, cp_schema, cp_table, {POINT}, {EXIT}, table_info, is_global, update_time) "
                "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, NOW() - INTERVAL 1 DAY)",
                (self.source, *key, *says, json.dumps(info), table is None),
            )
            connection.commit()
        return self

    def _cells(self, at: Location) -> tuple[str, int, str]:
        base, _, number = at.file.rpartition(".")
        file = f"{base}|{self.relay_suffix:06d}.{number}" if self.relay_suffix else at.file
        return file, at.position, at.gtid_set

    def add_column(self, name: str) -> Self:
        self.target.sql(f"ALTER TABLE {self.name} ADD COLUMN {name} int")
        return self

    def moved_before(self, step: Callable[..., None]) -> Callable[..., None]:
        """Return a step before which DM moves its points."""

        def moved(*arguments: object, **options: object) -> None:
            self.target.sql(f"UPDATE {self.name} SET binlog_pos = binlog_pos + 1")
            step(*arguments, **options)

        return moved

    def rows(self, columns: str = f"cp_schema, cp_table, {POINT}, {EXIT}, is_global") -> list[tuple[Any, ...]]:
        return self.target.sql(
            f"SELECT {columns} FROM {self.name} WHERE id = '{self.source}' ORDER BY cp_schema, cp_table"
        )
