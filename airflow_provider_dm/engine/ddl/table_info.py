"""TiDB's TableInfo, as DM's checkpoint holds it for each table, converted to a definition or refused.

    {"name": {"O": "orders"}, "cols": [{"name": {"O": "id"}, "type": {"Tp": 3, "Flag": 4099, …}}], "index_info": […]}
                                         ─▶  CREATE TABLE `orders` ( `id` int ( 11 ) NOT NULL , PRIMARY KEY ( `id` ) )

TiDB's model describes the source's table, as DM has tracked it. It has all that rows depend on: names, types, members,
charsets, keys. Features that TiDB lacks (CHECKs before 7.2, many collations, SPATIAL keys) are missing in it.

A field that is unknown here, or not mapped, must be empty (null, 0, false, "" or an empty list): TiDB's model grows
with every release, and the meaning of a new field is not known here.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from enum import IntFlag
from typing import Any, Final

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.write import string_sql

PUBLIC: Final = 5
"""The state of a column or an index that is visible to all sessions."""
UNSPECIFIED: Final = -1
"""A length that the statement did not specify."""


class Flag(IntFlag):
    """The bits of a column's type that are part of its definition."""

    NOT_NULL = 1
    PRIMARY = 2
    UNIQUE = 4
    UNSIGNED = 32
    ZEROFILL = 64
    BINARY = 128
    AUTO_INCREMENT = 512
    ON_UPDATE_NOW = 8192


TIDB_INTEGERS: Final = {1: "tinyint", 2: "smallint", 9: "mediumint", 3: "int", 8: "bigint"}
MOMENTS: Final = {7: "timestamp", 12: "datetime", 11: "time"}
FLOATS: Final = {4: "float", 5: "double"}
BLOBS: Final = {249: "tiny", 252: "", 250: "medium", 251: "long"}
MEMBERS: Final = {247: "enum", 248: "set"}
DATE, YEAR, VARCHAR, BIT, JSON, DECIMAL, VARSTRING, STRING = 10, 13, 15, 16, 245, 246, 253, 254

_OF_TABLE: Final = frozenset(
    {"id", "name", "charset", "collate", "cols", "index_info", "constraint_info", "fk_info", "state", "comment"}
    # Storage options of TiDB, on which no row of the source depends.
    | {"pk_is_handle", "is_common_handle", "common_handle_version", "auto_inc_id", "auto_id_cache", "auto_rand_id"}
    | {"auto_inc_id_extra", "max_col_id", "max_idx_id", "max_fk_id", "max_cst_id", "update_timestamp", "old_schema_id"}
    | {"ShardRowIDBits", "max_shard_row_id_bits", "pre_split_regions", "compression", "version", "revision", "Lock"}
    | {"tiflash_replica", "stats_options", "policy_ref_info", "db_id", "schema_version"}
)
_OF_COLUMN: Final = frozenset(
    {"id", "name", "offset", "origin_default", "origin_default_bit", "default", "default_bit", "default_is_expr"}
    | {"generated_expr_string", "generated_stored", "dependences", "type", "state", "comment", "version"}
)
_OF_TYPE: Final = frozenset({"Tp", "Flag", "Flen", "Decimal", "Charset", "Collate", "Elems", "ElemsIsBinaryLit"})
_OF_INDEX: Final = frozenset(
    {"id", "idx_name", "tbl_name", "idx_cols", "state", "comment", "index_type", "is_unique", "is_primary"}
    | {"is_invisible", "backfill_state"}
)
_OF_PART: Final = frozenset({"name", "offset", "length"})
_ROW_TREES: Final = frozenset({0, 1, 2})
"""Index types that do not change the meaning of an index: unspecified, BTREE, HASH."""
_LITERAL_MOMENT: Final = "CURRENT_TIMESTAMP"


def definition_of(info: Mapping[str, Any]) -> ddl.TableDefinition:
    """Convert a TableInfo to a definition. Raises CannotTrack."""
    try:
        return _definition(info)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CannotTrack(f"its structure is different ({type(error).__name__}: {error})") from None


def _definition(info: Mapping[str, Any]) -> ddl.TableDefinition:
    _only(info, _OF_TABLE, "the table")
    for what in ("fk_info", "constraint_info"):
        if info.get(what):
            raise CannotTrack(f"it has {what}")
    _public(info, "the table")
    columns = sorted(info["cols"] or (), key=lambda column: int(column["offset"]))
    if not columns:
        raise CannotTrack("it has no columns")
    keys = [_key(index) for index in info.get("index_info") or ()]
    primary = [column["name"]["O"] for column in columns if Flag(_bits(column)) & Flag.PRIMARY]
    if primary and not any(key.kind is ddl.KeyKind.PRIMARY for key in keys):  # TiDB's handle: it has no index
        if len(primary) > 1:
            raise CannotTrack("its primary key has no index")
        keys.insert(0, ddl.KeyDefinition(ddl.KeyKind.PRIMARY, (ddl.KeyPart(primary[0]),)))
    constraints: list[ddl.Constraint] = [*sorted(keys, key=lambda key: key.kind is not ddl.KeyKind.PRIMARY)]
    given = {"CHARSET": info.get("charset"), "COLLATE": info.get("collate"), "COMMENT": info.get("comment")}
    options = [("ENGINE", "InnoDB"), *((name, str(value)) for name, value in given.items() if value)]
    return ddl.TableDefinition(tuple(map(_column, columns)), tuple(constraints), tuple(options))


# Columns


def _bits(column: Mapping[str, Any]) -> int:
    return int(column["type"]["Flag"]) & sum(Flag)


def _column(column: Mapping[str, Any]) -> ddl.ColumnDefinition:
    name = str(column["name"]["O"])
    where = f"column {name}"
    _only(column, _OF_COLUMN, where)
    _only(column["type"], _OF_TYPE, where)
    _public(column, where)
    flags = Flag(_bits(column))
    moment = int(column["type"]["Tp"]) in MOMENTS
    kind = _type(column["type"], flags, where)
    if column.get("generated_expr_string"):
        return ddl.ColumnDefinition(
            name,
            kind,
            nullable=False if flags & Flag.NOT_NULL else None,
            generated=f"({column['generated_expr_string']})",
            stored=bool(column.get("generated_stored")),
            comment=column.get("comment") or None,
        )
    fraction = f"({kind.arguments[0]})" if moment and kind.arguments else ""
    return ddl.ColumnDefinition(
        name,
        kind,
        nullable=not flags & Flag.NOT_NULL,
        default=_default(column, kind, fraction, where),
        on_update=f"CURRENT_TIMESTAMP{fraction}" if flags & Flag.ON_UPDATE_NOW else None,
        auto_increment=bool(flags & Flag.AUTO_INCREMENT),
        comment=column.get("comment") or None,
    )


def _default(column: Mapping[str, Any], kind: ddl.ColumnType, fraction: str, where: str) -> str | None:
    if column.get("default_bit"):
        octets = base64.b64decode(column["default_bit"])
        return f"b'{int.from_bytes(octets, 'big'):b}'" if kind.name == "bit" else f"0x{octets.hex()}"
    value = column.get("default")
    if value is None:
        return None
    if not isinstance(value, str):
        raise CannotTrack(f"the default of {where} is {value!r}")
    if column.get("default_is_expr"):
        return f"({value})"
    if kind.name in MOMENTS.values() and value.upper().partition("(")[0] == _LITERAL_MOMENT:
        return f"{_LITERAL_MOMENT}{fraction}"
    if kind.name == "bit":
        return f"b'{int.from_bytes(value.encode('latin1'), 'big'):b}'"
    return string_sql(value)


def _type(info: Mapping[str, Any], flags: Flag, where: str) -> ddl.ColumnType:
    number, length, decimals = int(info["Tp"]), int(info["Flen"]), int(info["Decimal"])
    charset, collation = str(info.get("Charset") or ""), str(info.get("Collate") or "")
    unsigned, zerofill = bool(flags & Flag.UNSIGNED), bool(flags & Flag.ZEROFILL)
    characters = charset not in ("", "binary")

    def text(name: str, arguments: tuple[str, ...] = ()) -> ddl.ColumnType:
        return ddl.ColumnType(name, arguments, charset=charset, collation=collation or None)

    width = () if length == UNSPECIFIED else (str(length),)
    if number in TIDB_INTEGERS:
        return ddl.ColumnType(TIDB_INTEGERS[number], width, unsigned, zerofill)
    if number in FLOATS:
        precise = length != UNSPECIFIED and decimals != UNSPECIFIED
        return ddl.ColumnType(FLOATS[number], (str(length), str(decimals)) if precise else (), unsigned, zerofill)
    if number == DECIMAL:
        return ddl.ColumnType("decimal", (*width, str(max(decimals, 0))) if width else (), unsigned, zerofill)
    if number in MOMENTS:
        return ddl.ColumnType(MOMENTS[number], (str(decimals),) if decimals > 0 else ())
    if number in MEMBERS:
        if any(info.get("ElemsIsBinaryLit") or ()):
            raise CannotTrack(f"{where} has members in bytes")
        members = tuple(map(str, info["Elems"]))
        return (
            text(MEMBERS[number], members) if characters else ddl.ColumnType(MEMBERS[number], members, charset="binary")
        )
    if number in BLOBS:
        return text(f"{BLOBS[number]}text") if characters else ddl.ColumnType(f"{BLOBS[number]}blob")
    if number in (VARCHAR, VARSTRING):
        return text("varchar", width) if characters else ddl.ColumnType("varbinary", width)
    if number == STRING:
        return text("char", width) if characters else ddl.ColumnType("binary", width)
    plain = {DATE: "date", YEAR: "year", JSON: "json"}
    if number == BIT:
        return ddl.ColumnType("bit", width)
    if number not in plain:
        raise CannotTrack(f"{where} is of a type with number {number}")
    return ddl.ColumnType(plain[number])


# Keys


def _key(index: Mapping[str, Any]) -> ddl.KeyDefinition:
    name = str(index["idx_name"]["O"])
    where = f"key {name}"
    _only(index, _OF_INDEX, where)
    _public(index, where)
    if int(index.get("index_type") or 0) not in _ROW_TREES:
        raise CannotTrack(f"{where} is of a type with number {index['index_type']}")
    parts = []
    for part in index["idx_cols"]:
        _only(part, _OF_PART, where)
        prefix = int(part["length"])
        parts.append(ddl.KeyPart(str(part["name"]["O"]), None if prefix == UNSPECIFIED else prefix))
    if index.get("is_primary"):
        return ddl.KeyDefinition(ddl.KeyKind.PRIMARY, tuple(parts))
    return ddl.KeyDefinition(ddl.KeyKind.UNIQUE if index.get("is_unique") else ddl.KeyKind.PLAIN, tuple(parts), name)


# Unknown content


def _public(info: Mapping[str, Any], where: str) -> None:
    if int(info.get("state", PUBLIC)) != PUBLIC:
        raise CannotTrack(f"{where} is being changed by a DDL (state {info['state']})")


def _only(info: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    """Check that unknown fields are empty. Raises CannotTrack."""
    unknown: Sequence[str] = sorted(name for name in info.keys() - known if info[name])
    if unknown:
        raise CannotTrack(f"{where} has values in the unknown fields {', '.join(unknown)}")
