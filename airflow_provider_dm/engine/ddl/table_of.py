"""A resolved definition as the table in a server's catalogue, by which rows are decoded.

varchar(10), utf8mb4 ─▶ Column(data_type="varchar", column_type="varchar(10)", octet_length=40, …)
"""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.collations import BINARY, shown_charset, shown_collation
from airflow_provider_dm.engine.ddl.column_types import MEMBERS, octets
from airflow_provider_dm.engine.ddl.keys import is_hashed
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Column, Index, Table

_PRECISIONS: Final = {"tinyint": 3, "smallint": 5, "mediumint": 7, "int": 10, "bigint": 19}
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\0": r"\0", "\n": r"\n", "\r": r"\r", "'": "''"})


def table_of(server: Server, name: TableName, definition: ddl.TableDefinition) -> Table:
    """Return the table as `schema.catalogue.read_tables` reads it."""
    keys = [constraint for constraint in definition.constraints if isinstance(constraint, ddl.KeyDefinition)]
    engine = dict(definition.options)["ENGINE"]
    unique = [_index(key) for key in keys if key.kind in (ddl.KeyKind.PRIMARY, ddl.KeyKind.UNIQUE)]
    return Table(
        name,
        tuple(_column(server, position, column) for position, column in enumerate(definition.columns)),
        tuple(sorted(unique, key=lambda index: (not index.primary, index.name))),
        has_foreign_keys=any(isinstance(constraint, ddl.ForeignKey) for constraint in definition.constraints),
        hidden=sum(is_hashed(server, engine, key) for key in keys),
    )


def _column(server: Server, position: int, column: ddl.ColumnDefinition) -> Column:
    kind = column.type
    charset, collation = kind.charset, kind.collation
    if charset == BINARY and not server.mariadb:  # for an ENUM: MySQL shows no charset
        charset = collation = None
    precision, scale = _numeric(server, kind)
    return Column(
        name=column.name,
        position=position,
        data_type=_data_type(server, kind),
        column_type=_column_type(server, column),
        nullable=bool(column.nullable),
        charset=None if charset is None else shown_charset(server, charset),
        collation=None if collation is None else shown_collation(server, collation),
        numeric_precision=precision,
        numeric_scale=scale,
        datetime_precision=_fraction(kind),
        octet_length=octets(kind),
        generated=column.generated is not None,
        invisible=column.invisible,
        expression=(column.generated or "")[1:-1],
    )


def _data_type(server: Server, kind: ddl.ColumnType) -> str:
    if kind.name == "geometrycollection" and server.can.shows_geomcollection:
        return "geomcollection"
    return kind.name


def _column_type(server: Server, column: ddl.ColumnDefinition) -> str:
    kind = column.type
    text = _data_type(server, kind)
    if kind.arguments:
        quoted = [f"'{member.translate(_ESCAPES)}'" if kind.name in MEMBERS else member for member in kind.arguments]
        text += f"({','.join(quoted)})"
    text += " unsigned" * kind.unsigned + " zerofill" * kind.zerofill
    return text + " /*M!100301 COMPRESSED*/" * ("COMPRESSED" in dict(column.options))


def _numeric(server: Server, kind: ddl.ColumnType) -> tuple[int | None, int | None]:
    """Return (precision, scale) of a numeric type."""
    numbers = [int(argument) for argument in kind.arguments if kind.name in ("decimal", "float", "double", "bit")]
    match kind.name, numbers:
        case "bit", [bits]:
            return bits, None
        case _, [precision, scale]:
            return precision, scale
        case "float", _:
            return 12, None
        case "double", _:
            return 22, None
    if kind.name not in _PRECISIONS:
        return None, None
    wider = kind.unsigned and (kind.name == "bigint" or (kind.name == "mediumint" and server.mariadb))
    return _PRECISIONS[kind.name] + wider, 0


def _fraction(kind: ddl.ColumnType) -> int | None:
    """Return the fractional digits of a temporal type; None for other types."""
    return int((*kind.arguments, "0")[0]) if kind.name in ("time", "datetime", "timestamp") else None


def _index(key: ddl.KeyDefinition) -> Index:
    parts = [(part.column, part.prefix) for part in key.parts if part.column is not None]
    return Index(
        name=str(key.name),
        columns=tuple(column for column, _ in parts),
        prefixes=tuple(prefix for _, prefix in parts),
        expression=len(parts) < len(key.parts),
    )
