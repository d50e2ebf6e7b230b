"""TABLE_MAP events: the table of the next rows, and how its columns are stored.

A map has type codes, but no reliable signedness, names, charsets or members; those come from the known definition. All
that the map contains is compared with the definition, column by column: a difference means that the definition is not
that of this location in the log, and decoding with it would give wrong rows without an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pymysqlreplication.constants import FIELD_TYPE

from airflow_provider_dm.engine.binlog import map_texts
from airflow_provider_dm.engine.binlog.byte_reader import ByteReader
from airflow_provider_dm.engine.binlog.cells import METADATA_SIZE, NUMERIC, Cell, CellKind, cell_for
from airflow_provider_dm.engine.binlog.errors import Contradiction, MalformedEvent, SchemaMismatch
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Table

ID_AND_FLAGS: Final = 8
_SIGNEDNESS, _COLUMN_NAME = 1, 4
_HASH_NAME: Final = "DB_ROW_HASH_"
_HASH_SIZE: Final = 8


@dataclass(frozen=True)
class TableMap:
    """A table map without its number. `unsigned` (of numeric columns, in order) and `names` only if it has them.

    `fields`: the optional fields at its end, by kind; `map_texts` reads more of them.
    """

    name: TableName
    types: bytes
    metadata: tuple[bytes, ...]
    unsigned: tuple[bool, ...] | None = None
    names: tuple[str, ...] | None = None
    fields: Mapping[int, bytes] = field(default_factory=dict)


def map_name(body: bytes, at: str) -> TableName:
    """Read the table of a map, from its body after id and flags. Raises MalformedEvent."""
    return _name(ByteReader(body, at, "a TABLE_MAP"))


def parse_map(body: bytes, at: str) -> TableMap:
    """Parse a complete map, from its body after id and flags. Raises MalformedEvent."""
    reader = ByteReader(body, at, "a TABLE_MAP")
    name = _name(reader)
    types = bytes(reader.take(reader.number()))
    block = ByteReader(reader.take(reader.number()), at, "the column metadata of a TABLE_MAP")
    metadata = tuple(bytes(block.take(_metadata_size(code, at))) for code in types)
    if block.left:
        raise MalformedEvent(at, f"{block.left} bytes of column metadata too many")
    reader.take((len(types) + 7) // 8)  # which columns may be NULL
    fields: dict[int, bytes] = {}  # a server may write none, some or all
    while reader.left:
        kind = reader.fixed(1)
        fields[kind] = bytes(reader.take(reader.number()))
    return TableMap(name, types, metadata, _signs(fields, types), _names(fields, at), fields)


def _name(reader: ByteReader) -> TableName:
    schema = reader.prefixed()
    reader.take(1)
    table = reader.prefixed()
    reader.take(1)
    return TableName(schema.decode("utf-8", "replace"), table.decode("utf-8", "replace"))


def _metadata_size(code: int, at: str) -> int:
    if code not in METADATA_SIZE:
        raise MalformedEvent(at, f"a column of type {code}, which no supported server has")
    return METADATA_SIZE[code]


def _signs(fields: Mapping[int, bytes], types: bytes) -> tuple[bool, ...] | None:
    if _SIGNEDNESS not in fields:
        return None
    bits = [bool(byte >> (7 - bit) & 1) for byte in fields[_SIGNEDNESS] for bit in range(8)]
    return tuple(bits[: sum(code in NUMERIC for code in types)])


def _names(fields: Mapping[int, bytes], at: str) -> tuple[str, ...] | None:
    if _COLUMN_NAME not in fields:
        return None
    reader, names = ByteReader(fields[_COLUMN_NAME], at, "a TABLE_MAP's list of columns"), list[str]()
    while reader.left:
        names.append(bytes(reader.take(reader.number())).decode("utf-8", "replace"))
    return tuple(names)


def map_cells(table_map: TableMap, table: Table, at: str) -> tuple[Cell, ...]:
    """Return the cells for reading a map's row as one of `table`. Raises SchemaMismatch, UnsupportedColumnType."""
    _check_columns(table_map, table, at)
    cells = []
    for column, code, metadata in zip(table.columns, table_map.types, table_map.metadata, strict=False):
        try:
            cells.append(cell_for(table.name, column, code, metadata))
        except Contradiction as contradiction:
            ours_text = f"{column.name} {column.column_type}"
            raise SchemaMismatch(at, str(table.name), f"{column.name} as {contradiction}", ours_text) from contradiction
    _check_signs(table_map, table, at)
    for column, log in map_texts.contradictions(table_map.fields, table_map.types, table_map.metadata, table, at):
        ours_text = f"{column.name} {column.column_type} CHARACTER SET {column.charset or 'binary'}"
        raise SchemaMismatch(at, str(table.name), f"{column.name} with {log}", ours_text)
    return (*cells, *[Cell(CellKind.HIDDEN, _HASH_SIZE)] * table.hidden)


def _check_columns(table_map: TableMap, table: Table, at: str) -> None:
    """Check that the log has the catalogue's columns followed by the hidden ones, and no others."""
    ours = [column.name for column in table.columns]
    types, names = table_map.types, table_map.names
    if len(types) != len(ours) + table.hidden:
        hidden = f" and {table.hidden} hidden" if table.hidden else ""
        raise SchemaMismatch(at, str(table.name), f"{len(types)} columns", f"{len(ours)}{hidden}: {', '.join(ours)}")
    if any(code != FIELD_TYPE.LONGLONG for code in types[len(ours) :]):
        raise SchemaMismatch(
            at, str(table.name), f"a hidden column that is not a hash ({types.hex()})", ", ".join(ours)
        )
    if names is not None and not (len(names) == len(types) and _agree(names, ours)):
        raise SchemaMismatch(at, str(table.name), ", ".join(names), ", ".join(ours))


def _agree(names: Sequence[str], ours: Sequence[str]) -> bool:
    hidden = names[len(ours) :]
    return list(names[: len(ours)]) == list(ours) and all(name.startswith(_HASH_NAME) for name in hidden)


def _check_signs(table_map: TableMap, table: Table, at: str) -> None:
    if table_map.unsigned is None:
        return
    numeric = [column for column, code in zip(table.columns, table_map.types, strict=False) if code in NUMERIC]
    for column, unsigned in zip(numeric, table_map.unsigned, strict=False):
        if column.unsigned != unsigned and column.data_type != "year":  # a YEAR counts as unsigned
            sign = "unsigned" if unsigned else "signed"
            raise SchemaMismatch(at, str(table.name), f"{column.name} {sign}", f"{column.name} {column.column_type}")
