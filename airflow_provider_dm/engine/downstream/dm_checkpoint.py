"""DM's own checkpoint table, `{task}_syncer_checkpoint` in the meta-schema, in DM's format.

    id         cp_schema  cp_table  binlog_name       binlog_pos  …  table_info      is_global
    source-id  ''         ''        mysql-bin.000003  4711           null            1         the global point
    source-id  shop       orders    mysql-bin.000003  5120           {TableInfo …}   0         that of one table

DM has executed everything before the global point, and for a table everything before its own point, if that is later.
`exit_safe_binlog_*` of the global row: up to where later changes may already be in the target.

Here the table is for users and tools, and for taking over a task from DM and back (sync/start/dm_import.py,
sync/checkpoint.py). The engine's own checkpoint is dm_frontier: this table is written after it, and never read by a
subtask that has started.

Names are DM's: the table's name contains the task's name, so on servers with case-insensitive names (TiDB,
lower_case_table_names other than 0) two tasks can have the same table.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from airflow_provider_dm.engine.config.start_meta import location_of
from airflow_provider_dm.engine.config.task import TaskMode
from airflow_provider_dm.engine.downstream.errors import CheckpointUnusable
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.subtask import Subtask
from airflow_provider_dm.engine.mysql.connection import Connection, query, query_whole, text
from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.catalogue import has_table

SUFFIX: Final = "_syncer_checkpoint"
LONGEST_NAME: Final = 64
LONGEST_ID: Final = 32
LAST_POSITION: Final = (1 << 32) - 1
"""DM stores a position in 32 bits."""

COLUMNS: Final[Mapping[str, str]] = {
    "id": "varchar(32) NOT NULL",
    "cp_schema": "varchar(128) NOT NULL",
    "cp_table": "varchar(128) NOT NULL",
    "binlog_name": "varchar(128)",
    "binlog_pos": "int unsigned",
    "binlog_gtid": "text",
    "exit_safe_binlog_name": "varchar(128) DEFAULT ''",
    "exit_safe_binlog_pos": "int unsigned DEFAULT 0",
    "exit_safe_binlog_gtid": "text",
    "table_info": "json NOT NULL",
    "is_global": "boolean",
    "create_time": "timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP",
    "update_time": "timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP",
}
_SINCE_DM_2: Final = frozenset(
    {"binlog_gtid", "exit_safe_binlog_name", "exit_safe_binlog_pos", "exit_safe_binlog_gtid", "table_info"}
)
"""Columns that tables of DM 1.0 lack."""
_WRITTEN: Final = tuple(name for name in COLUMNS if not name.endswith("_time"))


@dataclass(frozen=True)
class DmPoint:
    """A location in DM's format; its `suffix` counts the sub-directories of DM's relay log, 0 without one."""

    place: Location | None
    """None: only the GTID set is known."""
    gtid_set: str = ""

    def __str__(self) -> str:
        return str(self.place) if self.place is not None else self.gtid_set

    def to_json(self) -> dict[str, Any]:
        place = self.place
        return {
            "binlog_name": None if place is None else place.file,
            "binlog_pos": None if place is None else place.position,
            "binlog_gtid": self.gtid_set,
        }


@dataclass(frozen=True)
class TablePoint:
    """A table's point, and the table's definition there as TiDB's TableInfo; None: DM has none."""

    point: DmPoint
    table_info: dict[str, Any] | None = None


@dataclass(frozen=True)
class DmCheckpoint:
    """DM's checkpoint of one source. `exit_safe` None: how far DM had applied beyond the global point is unknown."""

    table: str
    source: str
    point: DmPoint
    exit_safe: DmPoint | None
    tables: Mapping[TableName, TablePoint] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON for users: {"global_point", "exit_safe_point", "tables": {name: point}}."""
        return {
            "global_point": self.point.to_json(),
            "exit_safe_point": None if self.exit_safe is None else self.exit_safe.to_json(),
            "tables": {str(name): checkpoint.point.to_json() for name, checkpoint in self.tables.items()},
        }

    def unusable(self, why: str) -> CheckpointUnusable:
        return CheckpointUnusable(self.table, self.source, why)


def checkpoint_name(task: str) -> str:
    """Return the table's name."""
    return f"{task}{SUFFIX}"


def _table(ref: SubtaskRef) -> str:
    """Return the table's quoted name for a statement with arguments, in which a percent sign is doubled."""
    return _quoted(ref).replace("%", "%%")


def _quoted(ref: SubtaskRef) -> str:
    return f"{quote(ref.meta_schema)}.{quote(checkpoint_name(ref.task))}"


def columns_there(connection: Connection, ref: SubtaskRef) -> frozenset[str]:
    """Return the columns of the task's checkpoint table, in lower case; none if it does not exist."""
    wanted = checkpoint_name(ref.task)
    if len(wanted) > LONGEST_NAME:
        return frozenset()
    rows = query_whole(
        connection,
        "table_name, column_name",
        "FROM information_schema.columns WHERE table_schema = %s AND LOWER(table_name) = LOWER(%s)",
        (ref.meta_schema, wanted),
    )
    folds = names_have_no_case(connection)
    return frozenset(
        text(column).lower()
        for table, column in rows
        if text(table) == wanted or (folds and text(table).lower() == wanted.lower())
    )


def names_have_no_case(connection: Connection) -> bool:
    """Return True if the server treats `A` and `a` as the same table name."""
    ((mode,),) = query(connection, "SELECT @@lower_case_table_names")
    return bool(int(mode))


def shared_with(connection: Connection, ref: SubtaskRef) -> str:
    """Return another task of this provider on the same source with the same checkpoint table; "" if there is none."""
    if not names_have_no_case(connection):
        return ""
    rows = query(
        connection,
        f"SELECT task FROM {ref.table('dm_subtask')} WHERE source = %s AND LOWER(task) = LOWER(%s)",
        (ref.source, ref.task),
    )
    return next((name for (one,) in rows if (name := text(one)) != ref.task), "")


# Reading


def to_take_over(connection: Connection, ref: SubtaskRef, mode: TaskMode, known: Subtask | None) -> DmCheckpoint | None:
    """Return DM's checkpoint for a subtask that has not started here, if DM has reached the sync unit.

    `known`: the subtask in the target. Raises CheckpointUnusable, IncompleteResult.
    """
    if mode is TaskMode.FULL or (known is not None and known.start is not None):
        return None
    found = read_checkpoint(connection, ref)
    if found is not None and known is not None and (other := shared_with(connection, ref)):
        raise found.unusable(f"it may belong to task {other}, as the target's names are case-insensitive")
    if found is not None and _shards_wait(connection, ref):
        raise found.unusable("shards of a merged table are in the middle of a DDL (`shard-ddl-lock` of DM shows them)")
    return found


def _shards_wait(connection: Connection, ref: SubtaskRef) -> bool:
    """Return True if DM has recorded unresolved DDL of merged tables; a row is removed when it is resolved."""
    name = TableName(ref.meta_schema, f"{ref.task}_syncer_sharding_meta")
    sql = f"SELECT 1 FROM {name.quoted().replace('%', '%%')} WHERE source_id = %s LIMIT 1"
    return has_table(connection, name) and bool(query(connection, sql, (ref.source,)))


def read_checkpoint(connection: Connection, ref: SubtaskRef) -> DmCheckpoint | None:
    """Return DM's checkpoint of a source; None if there is none. Raises CheckpointUnusable, IncompleteResult."""
    columns = columns_there(connection, ref)
    if not columns:
        return None
    table = f"{ref.meta_schema}.{checkpoint_name(ref.task)}"
    unknown, lacking = columns - COLUMNS.keys(), COLUMNS.keys() - columns - _SINCE_DM_2 - {"create_time", "update_time"}
    if unknown or lacking:
        what = f"it has unknown columns ({_list(unknown)})" if unknown else f"it lacks {_list(lacking)}"
        raise CheckpointUnusable(table, ref.source, what)
    rows = query_whole(
        connection,
        ", ".join(name if name in columns else f"NULL AS {name}" for name in _WRITTEN),
        f"FROM {_table(ref)} WHERE id = %s",
        (ref.source,),
        tail="ORDER BY cp_schema, cp_table",
    )
    return checkpoint_of(table, ref.source, [dict(zip(_WRITTEN, row, strict=True)) for row in rows])


def seconds_since_written(connection: Connection, ref: SubtaskRef) -> int | None:
    """Return the seconds, by the target's clock, since DM last wrote a row of a source; None if the table lacks the
    column."""
    if "update_time" not in columns_there(connection, ref):
        return None
    ((seconds,),) = query(
        connection,
        f"SELECT UNIX_TIMESTAMP() - UNIX_TIMESTAMP(MAX(update_time)) FROM {_table(ref)} WHERE id = %s",
        (ref.source,),
    )
    return None if seconds is None else int(seconds)


def checkpoint_of(table: str, source: str, rows: Sequence[Mapping[str, Any]]) -> DmCheckpoint | None:
    """Return the checkpoint in the rows of a source. Raises CheckpointUnusable."""

    def point(row: Mapping[str, Any], prefix: str = "") -> DmPoint | None:
        name, gtid_set = (_text(row[f"{prefix}binlog_{one}"]) for one in ("name", "gtid"))
        try:
            place = location_of(name, int(row[f"{prefix}binlog_pos"] or 0)) if name else None
            place = replace(place, suffix=0) if place is not None and "|" not in name else place
        except InvalidLocation:
            raise CheckpointUnusable(table, source, f"{name!r} is not the name of a binlog file") from None
        return DmPoint(place, gtid_set) if place is not None or gtid_set else None

    rows = [row for row in rows if _text(row["id"]) == source]  # the column's collation may be case-insensitive
    global_rows = [row for row in rows if int(row["is_global"] or 0)]
    tables: dict[TableName, TablePoint] = {}
    for row in rows:
        if int(row["is_global"] or 0):
            continue
        name = TableName(_text(row["cp_schema"]), _text(row["cp_table"]))
        found = point(row)
        if found is None:
            raise CheckpointUnusable(table, source, f"the point of {name} is empty")
        tables[name] = TablePoint(found, _table_info(table, source, name, row["table_info"]))
    if len(global_rows) > 1:
        raise CheckpointUnusable(table, source, "it has two global points")
    start = point(global_rows[0]) if global_rows else None
    if start is None:  # DM ignores such a row as well
        if tables:
            raise CheckpointUnusable(table, source, "it has points of tables, but no global point")
        return None
    return DmCheckpoint(table, source, start, point(global_rows[0], "exit_safe_"), tables)


def _table_info(table: str, source: str, name: TableName, cell: Any) -> dict[str, Any] | None:
    if cell is None:
        return None
    try:
        found = json.loads(_text(cell))
    except ValueError:
        raise CheckpointUnusable(table, source, f"the table_info of {name} is not JSON") from None
    if found is not None and not isinstance(found, dict):
        raise CheckpointUnusable(table, source, f"the table_info of {name} is not a table")
    return found


def _text(cell: Any) -> str:
    return "" if cell is None else text(cell)


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


# Writing


def create_checkpoint_table(connection: Connection, ref: SubtaskRef) -> None:
    """Create the table as DM does, if it does not exist. It commits implicitly."""
    if columns_there(connection, ref):  # "IF NOT EXISTS" alone would leave a warning
        return
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    query(
        connection,
        f"CREATE TABLE IF NOT EXISTS {_quoted(ref)} "
        f"({columns}, UNIQUE KEY uk_id_schema_table (id, cp_schema, cp_table)) "
        "ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    )


def why_not_writable(connection: Connection, ref: SubtaskRef) -> str:
    """Return why DM's format cannot hold this subtask, or the existing table cannot be used; "" if neither is true."""
    if len(checkpoint_name(ref.task)) > LONGEST_NAME:
        return f"the table's name would be longer than {LONGEST_NAME} characters"
    if len(ref.source) > LONGEST_ID:
        return f"its id is longer than {LONGEST_ID} characters"
    if other := shared_with(connection, ref):
        return f"it belongs to task {other} as well, as the target's names are case-insensitive"
    columns = columns_there(connection, ref)
    if columns and (lacking := frozenset(_WRITTEN) - columns):
        return f"the table lacks {_list(lacking)}"
    return ""


def put_global_point(connection: Connection, ref: SubtaskRef, at: Location, exit_safe: Location | None) -> None:
    """Write the global point, in a transaction that has checked the generation."""
    _put(connection, ref, [(("", ""), at, exit_safe, "null", True)])


def forget_exit_point(connection: Connection, ref: SubtaskRef) -> None:
    """Record that changes after the global point may be in the target, to an unknown extent, in such a transaction."""
    query(
        connection,
        f"UPDATE {_table(ref)} SET exit_safe_binlog_name = '', exit_safe_binlog_pos = 0, exit_safe_binlog_gtid = '' "
        "WHERE id = %s AND is_global",
        (ref.source,),
    )


def put_table_points(
    connection: Connection, ref: SubtaskRef, at: Location, tables: Mapping[TableName, str | None]
) -> None:
    """Write points of tables with their TableInfo (JSON or None), in a transaction that has checked the generation."""
    _put(connection, ref, [((*name,), at, None, info or "null", False) for name, info in tables.items()])


def move_table_points(connection: Connection, ref: SubtaskRef, at: Location, except_for: Collection[TableName]) -> None:
    """Move the points of all tables except these, in a transaction that has checked the generation."""
    others = "".join(" AND NOT (cp_schema = %s AND cp_table = %s)" for _ in except_for)
    query(
        connection,
        f"UPDATE {_table(ref)} SET binlog_name = %s, binlog_pos = %s, binlog_gtid = %s "
        f"WHERE id = %s AND NOT is_global{others}",
        (at.file, at.position, at.gtid_set, ref.source, *(part for name in except_for for part in name)),
    )


def delete_table_points(connection: Connection, ref: SubtaskRef, keep: Collection[TableName]) -> None:
    """Remove the points of tables that no longer belong to the task, in such a transaction."""
    rows = query_whole(
        connection, "cp_schema, cp_table", f"FROM {_table(ref)} WHERE id = %s AND NOT is_global", (ref.source,)
    )
    for schema, table in rows:
        if TableName(text(schema), text(table)) not in keep:
            query(
                connection,
                f"DELETE FROM {_table(ref)} WHERE id = %s AND cp_schema = %s AND cp_table = %s",
                (ref.source, text(schema), text(table)),
            )


def forget_checkpoint(connection: Connection, ref: SubtaskRef) -> int:
    """Remove all rows of a source from DM's table, in such a transaction. Return their number."""
    if not columns_there(connection, ref):
        return 0
    with connection.cursor() as cursor:
        return int(cursor.execute(f"DELETE FROM {_table(ref)} WHERE id = %s", (ref.source,)))


_Row = tuple[tuple[str, str], Location, Location | None, str, bool]


def _put(connection: Connection, ref: SubtaskRef, rows: Iterable[_Row]) -> None:
    changed = ", ".join(f"{name} = VALUES({name})" for name in _WRITTEN if not name.startswith(("id", "cp_")))
    marks = ", ".join(["%s"] * len(_WRITTEN))
    sql = f"INSERT INTO {_table(ref)} ({', '.join(_WRITTEN)}) VALUES ({marks}) ON DUPLICATE KEY UPDATE {changed}"
    values: list[tuple[object, ...]] = []
    for key, at, exit_safe, info, is_global in rows:
        leaving = (exit_safe.file, exit_safe.position, exit_safe.gtid_set) if exit_safe is not None else ("", 0, "")
        values.append((ref.source, *key, at.file, at.position, at.gtid_set, *leaving, info, is_global))
    with connection.cursor() as cursor:
        cursor.executemany(sql, values)  # as many rows in a statement as fit
