"""The lines of a LOAD are what the server reads as the cells that they were made of."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.downstream.load_data import LoadDataStatement, load_data_of
from airflow_provider_dm.engine.downstream.row_statements import Dialect, LoadData
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.charsets import text_of
from airflow_provider_dm.engine.schema.codec import LiteralStyle, Row, codec_for
from airflow_provider_dm.engine.schema.strings import INVALID_MEMBER
from tests.unit.downstream.test_tuples import FLAVOURS, KINDS, mapping_of

ALL = Dialect(loads=LoadData.ALL)
NOT_LOADED = {"tinytext"}
"""Text of a charset without ASCII."""
LOADED_GBK = KINDS["varchar(40)"][2].filter(bytes.isascii)
PLAIN = {b"t": b"\t", b"n": b"\n", b"\\": b"\\"}


@pytest.fixture(autouse=True, scope="module")
def _kernels() -> None:
    build.warm()


def loaded(mapping: TableMapping, rows: list[Row], dialect: Dialect = ALL) -> LoadDataStatement | None:
    assert build.ready()
    return load_data_of(mapping, Cells.of(rows), np.arange(len(rows)), dialect)


def read_back(content: bytes) -> list[list[bytes | None]]:
    """The rows of the lines, as a server reads them."""
    rows: list[list[bytes | None]] = [[]]
    field, at, null = b"", 0, False
    while at < len(content):
        one = content[at : at + 1]
        at += 1
        if one == b"\\":
            escaped = content[at : at + 1]
            at += 1
            null = escaped == b"N"
            field += b"" if null else PLAIN[escaped]
        elif one in (b"\t", b"\n"):
            rows[-1].append(None if null else field)
            field, null = b"", False
            if one == b"\n":
                rows.append([])
        else:
            field += one
    assert rows.pop() == []
    return rows


def value_in_file(kind: str, value: bytes | None) -> bytes | None:
    mapping = mapping_of(kind)
    match codec_for(mapping.source.name, mapping.source.columns[0]).style:
        case LiteralStyle.HEX if value is not None:
            return value.hex().encode()
        case LiteralStyle.BITS if value is not None:
            return b"%d" % int.from_bytes(value, "big")
        case LiteralStyle.CHARSET if value is not None:
            return text_of(mapping.source.columns[0].charset or "", value).encode()
    return value


@pytest.mark.parametrize("flavour", FLAVOURS, ids=str)
@given(st.data())
@settings(max_examples=300)
def test_records_have_the_cells(flavour: Flavour, choose: st.DataObject) -> None:
    there = sorted(set(KINDS) - NOT_LOADED - ({"json"} if flavour is Flavour.MYSQL else set()))
    kinds = choose.draw(st.lists(st.sampled_from(there), min_size=1, max_size=8))
    cells = [st.none() | (LOADED_GBK if kind == "varchar(40)" else KINDS[kind][2]) for kind in kinds]
    rows = choose.draw(st.lists(st.tuples(*cells), min_size=1, max_size=6))

    load = loaded(mapping_of(*kinds), rows, Dialect(CAPABILITIES[flavour], loads=LoadData.ALL))

    assert load is not None
    assert load.rows == len(rows)
    expected = [[value_in_file(kind, value) for kind, value in zip(kinds, row, strict=True)] for row in rows]
    assert read_back(bytes(load.content)) == expected


def test_the_statement_names_the_columns_and_what_is_made_of_their_texts() -> None:
    load = loaded(mapping_of("int", "varbinary(99)", "bit(64)", "point", "text"), [(b"1", b"\0", b"\1", b"g", b"t")])

    assert load is not None
    columns = b"(`c0`, @v1, @v2, @v3, `c4`) SET `c1` = UNHEX(@v1), `c2` = CAST(@v2 AS UNSIGNED), `c3` = UNHEX(@v3)"
    assert load.sql.startswith(b"LOAD DATA LOCAL INFILE 'rows' INTO TABLE `shop`.`t` CHARACTER SET utf8mb4 FIELDS")
    assert load.sql.endswith(columns)


OTHER_TEXT: dict[str, list[tuple[bytes, bytes | None]]] = {
    "utf16": [(b"\0a", None)],
    "gbk": [(b"it's\t", b"it's\\t"), (b"\xb0\xa1", None)],
    "latin1": [(b"caf\xe9 \x80\n", "café €\\n".encode()), (b"\x81" * 9, b"\xc2\x81" * 9)],
    "armscii8": [(b"\xb2", "Ա".encode()), (b"\xa5", None)],  # a5 is `)`, as 29 is
    "dec8": [(b"\xa1", "¡".encode()), (b"\xa4", None), (b"12345678\xff", None)],  # they have no character
}
"""By charset: values, and what is loaded; None: it is inserted."""


@pytest.mark.parametrize("charset", OTHER_TEXT)
def test_text_of_another_charset_is_loaded_if_utf8_gives_it_back(charset: str) -> None:
    plain = mapping_of("int", "char(40)")
    first, second = plain.source.columns
    table = replace(plain.source, columns=(first, replace(second, charset=charset)))
    for value, content in OTHER_TEXT[charset]:
        load = loaded(TableMapping(table, table), [(b"1", value)])
        assert (load and bytes(load.content)) == (content and b"1\t" + content + b"\n")


def test_columns_that_a_load_treats_differently_are_inserted() -> None:
    plain = mapping_of("int", "enum('a','it''s','')")
    rows: list[Row] = [(b"1", b"a")]
    first, second = plain.target.columns

    def into(*columns: object) -> TableMapping:
        return TableMapping(plain.source, replace(plain.target, columns=columns))  # type: ignore[arg-type]

    assert loaded(plain, rows) is not None
    assert loaded(plain, [*rows, (b"2", INVALID_MEMBER)]) is None
    assert loaded(into(replace(first, data_type="varchar"), second), rows) is None
    assert loaded(into(first, replace(second, nullable=False)), rows) is None
    assert loaded(into(first, replace(second, generated=True)), rows) is None
    assert loaded(plain, rows, replace(ALL, loads=LoadData.NONE)) is None
    counted = into(replace(first, auto_increment=True), second)
    assert loaded(counted, rows) is not None
    assert loaded(counted, rows, replace(ALL, loads=LoadData.UNCOUNTED)) is None
    assert loaded(plain, rows, replace(ALL, loads=LoadData.UNCOUNTED)) is not None
