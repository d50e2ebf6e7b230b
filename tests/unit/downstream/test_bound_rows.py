"""The parameters of a prepared statement are the cells that they were made of."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymysql.constants import FIELD_TYPE

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.downstream.bound_rows import FEWEST, ROWS_OF_A_STATEMENT, bound_rows
from airflow_provider_dm.engine.downstream.row_statements import Dialect, SqlStatement, Verb
from airflow_provider_dm.engine.downstream.tuples import write_tuple_cells
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.strings import INVALID_MEMBER
from tests.unit.downstream.test_tuples import KINDS, mapping_of

LARGE, *_, SMALL = ROWS_OF_A_STATEMENT
BOUND_BY_SMALL = Dialect(most_rows=SMALL)
JSON = "json"
NOT_BOUND = {"varchar(40)", "tinytext"}
"""Text of several bytes for a character, other than UTF-8."""


@pytest.fixture(autouse=True, scope="module")
def _kernels() -> None:
    build.warm()


def bound(mapping: TableMapping, rows: list[Row], dialect: Dialect = BOUND_BY_SMALL) -> list[SqlStatement]:
    assert build.ready()
    return list(bound_rows(mapping, Cells.of(rows), np.arange(len(rows)), Verb.INSERT, dialect))


def read_back(statement: SqlStatement, width: int) -> tuple[list[int], list[Row]]:
    """The types of a row's parameters, and the rows, as a server reads them."""
    assert statement.parameters is not None
    content, count = bytes(statement.parameters), statement.rows * width
    assert statement.sql.count(b"?") == count
    at = struct.calcsize("<BI")
    assert struct.unpack_from("<BI", content) == (0, 1)
    null = np.unpackbits(np.frombuffer(content[at:], np.uint8), count=count, bitorder="little")
    at += (count + 7) // 8
    types = list(content[at + 1 : at + 1 + 2 * width : 2])
    assert content[at : at + 1 + 2 * count] == b"\1" + struct.pack(f"<{width}H", *types) * statement.rows
    at += 1 + 2 * count
    values: list[bytes | None] = []
    for one in null:
        if one:
            values.append(None)
            continue
        size, length = {0xFC: ("<xH", 3), 0xFD: ("<xI", 4), 0xFE: ("<xQ", 9)}.get(content[at], ("<B", 1))
        (many,) = struct.unpack_from(size, content, at)
        values.append(content[at + length : at + length + many])
        at += length + many
    assert at == len(content)
    return types, [tuple(values[first : first + width]) for first in range(0, count, width)]


@given(st.data())
@settings(max_examples=300)
def test_parameters_are_the_cells(choose: st.DataObject) -> None:
    kinds = choose.draw(st.lists(st.sampled_from(sorted(set(KINDS) - NOT_BOUND)), min_size=1, max_size=8))
    cells = [st.none() | KINDS[kind][2] for kind in kinds]
    some = choose.draw(st.lists(st.tuples(*cells), min_size=1, max_size=6))
    rows = [some[number % len(some)] for number in range(FEWEST * SMALL)]

    statements = bound(mapping_of(*kinds), rows)

    assert [row for one in statements for row in read_back(one, len(kinds))[1]] == rows


@pytest.mark.parametrize("size", [0, 250, 251, 65_535, 65_536])
def test_values_of_any_size_have_their_length(size: int) -> None:
    rows: list[Row] = [(b"1", b"x" * size)] * (FEWEST * SMALL)

    statements = bound(mapping_of("int", "longblob"), rows, replace(BOUND_BY_SMALL, most_bytes=8 << 20))

    assert [row for one in statements for row in read_back(one, 2)[1]] == rows


def test_bytes_are_sent_as_bytes_and_the_rest_as_text() -> None:
    kinds = ("int", "double", "date", "uuid", "varchar(99)", "json", "char(40)", "longblob", "bit(64)", "point")
    (first, *_) = bound(mapping_of(*kinds), [(None,) * len(kinds)] * (FEWEST * SMALL))

    types, _ = read_back(first, len(kinds))

    assert types == [FIELD_TYPE.VAR_STRING] * 6 + [FIELD_TYPE.BLOB] * 4
    assert b" VALUES (?,?,?,?,?,?,CONVERT(? USING latin1),?,?,?),(?," in first.sql


@pytest.mark.parametrize("rows", [FEWEST * LARGE - 1, FEWEST * LARGE, 5 * LARGE + 7])
def test_whole_statements_are_bound_and_the_rest_are_literals(rows: int) -> None:
    cells = Cells.of([(b"%d" % number, b"it's") for number in range(rows)])

    made = list(write_tuple_cells(mapping_of("int", "text"), cells, np.arange(rows), Verb.UPSERT, Dialect()))

    sizes = [one.rows for one in made if one.parameters is not None]
    assert sizes == ([LARGE] * (rows // LARGE) if rows >= FEWEST * LARGE else [])
    assert len({one.sql for one in made if one.parameters is not None}) <= 1
    bound_first = [row for one in made if one.parameters is not None for row in read_back(one, 2)[1]]
    assert bound_first == cells.rows()[: len(bound_first)]
    rest = b"".join(one.sql for one in made if one.parameters is None)
    assert rest.count(b"it\\'s") == rows - len(bound_first)


def test_statements_are_as_large_as_the_target_takes() -> None:
    rows: list[Row] = [(b"%d" % number, b"x" * 5_000) for number in range(FEWEST * LARGE)]
    mapping, large = mapping_of("int", "longblob"), (b"0", b"x" * 90_000)

    assert {one.rows for one in bound(mapping, rows, Dialect(most_bytes=3 << 20, most_rows=LARGE))} == {LARGE}
    assert {one.rows for one in bound(mapping, rows, Dialect(most_bytes=1 << 20))} == {128}
    assert {one.rows for one in bound(mapping, rows, Dialect(most_bytes=100_000))} == {SMALL}
    assert not bound(mapping, rows, Dialect(most_bytes=50_000))
    assert not bound(mapping, rows, Dialect(most_rows=SMALL - 1))
    # What follows a row that is too large for a statement of many rows is written by literals.
    assert len(bound(mapping, [*rows[:SMALL], large, *rows], Dialect(most_bytes=100_000))) == 1


def test_columns_of_another_type_are_literals() -> None:
    mapping = mapping_of("int", "enum('a','it''s','')", "char(40)")
    first, second, third = mapping.target.columns
    rows: list[Row] = [(b"1", b"a", b"b")] * (FEWEST * SMALL)

    def into(*columns: object) -> list[SqlStatement]:
        return bound(TableMapping(mapping.source, replace(mapping.target, columns=columns)), rows)  # type: ignore[arg-type]

    assert len(into(first, second, third)) == FEWEST
    assert len(into(replace(first, data_type="bigint"), second, third)) == FEWEST
    assert len(into(first, second, replace(third, charset="utf8mb4"))) == FEWEST
    assert not into(replace(first, data_type="varchar"), second, third)
    assert not into(first, second, replace(third, generated=True))
    # What follows an ENUM with index 0 is written by literals.
    assert len(bound(mapping, [*rows, (b"2", INVALID_MEMBER, b"b"), *rows])) == FEWEST
    assert not bound(mapping, rows, replace(BOUND_BY_SMALL, server=CAPABILITIES[Flavour.TIDB]))
    documents: list[Row] = [(b"[1.0]",)] * (FEWEST * SMALL)
    assert bound(mapping_of(JSON), documents)
    assert not bound(mapping_of(JSON), documents, replace(BOUND_BY_SMALL, server=CAPABILITIES[Flavour.MYSQL]))
    assert not any(bound(mapping_of(kind), [(b"a",)] * (FEWEST * SMALL)) for kind in NOT_BOUND)
