"""The parameters of a bulk execution are the cells that they were made of."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymysql.constants import FIELD_TYPE

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.downstream.bound_rows import FEWEST, bound_rows
from airflow_provider_dm.engine.downstream.row_statements import Dialect, SqlStatement, Verb
from airflow_provider_dm.engine.downstream.tuples import write_tuple_cells
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.strings import INVALID_MEMBER
from tests.unit.downstream.test_tuples import KINDS, mapping_of

BULK = Dialect(executes_bulk=True)
JSON = "json"
NOT_BOUND = {"varchar(40)", "tinytext"}
"""Text of several bytes for a character, other than UTF-8."""


@pytest.fixture(autouse=True, scope="module")
def _kernels() -> None:
    build.warm()


def bound(mapping: TableMapping, rows: list[Row], dialect: Dialect = BULK) -> list[SqlStatement]:
    assert build.ready()
    return list(bound_rows(mapping, Cells.of(rows), np.arange(len(rows)), Verb.INSERT, dialect))


def read_back(statement: SqlStatement, width: int) -> tuple[list[int], list[Row]]:
    """The types of a row's parameters, and the rows, as a server reads them."""
    assert statement.parameters is not None
    content = bytes(statement.parameters)
    assert statement.sql.count(b"?") == width
    assert content[:2] == struct.pack("<H", 128)
    at = 2 + 2 * width
    assert not any(content[3:at:2])
    values: list[bytes | None] = []
    while at < len(content):
        indicator, at = content[at], at + 1
        if indicator:
            assert indicator == 1
            values.append(None)
            continue
        size, length = {0xFC: ("<xH", 3), 0xFD: ("<xI", 4), 0xFE: ("<xQ", 9)}.get(content[at], ("<B", 1))
        (many,) = struct.unpack_from(size, content, at)
        values.append(content[at + length : at + length + many])
        at += length + many
    assert len(values) == statement.rows * width
    types = list(content[2 : 2 + 2 * width : 2])
    return types, [tuple(values[first : first + width]) for first in range(0, len(values), width)]


@given(st.data())
@settings(max_examples=300)
def test_parameters_are_the_cells(choose: st.DataObject) -> None:
    kinds = choose.draw(st.lists(st.sampled_from(sorted(set(KINDS) - NOT_BOUND)), min_size=1, max_size=8))
    cells = [st.none() | KINDS[kind][2] for kind in kinds]
    some = choose.draw(st.lists(st.tuples(*cells), min_size=1, max_size=6))
    rows = [some[number % len(some)] for number in range(FEWEST)]

    statements = bound(mapping_of(*kinds), rows)

    assert [row for one in statements for row in read_back(one, len(kinds))[1]] == rows


@pytest.mark.parametrize("size", [0, 250, 251, 65_535, 65_536])
def test_values_of_any_size_have_their_length(size: int) -> None:
    rows: list[Row] = [(b"1", b"x" * size)] * (FEWEST)

    statements = bound(mapping_of("int", "longblob"), rows, replace(BULK, most_bytes=8 << 20))

    assert [row for one in statements for row in read_back(one, 2)[1]] == rows


def test_bytes_are_sent_as_bytes_and_the_rest_as_text() -> None:
    kinds = ("int", "double", "date", "uuid", "varchar(99)", "json", "char(40)", "longblob", "bit(64)", "point")
    (first, *_) = bound(mapping_of(*kinds), [(None,) * len(kinds)] * (FEWEST))

    types, _ = read_back(first, len(kinds))

    assert types == [FIELD_TYPE.VAR_STRING] * 6 + [FIELD_TYPE.BLOB] * 4
    assert b" VALUES (?,?,?,?,?,?,CONVERT(? USING latin1),?,?,?)" in first.sql


@pytest.mark.parametrize("rows", [FEWEST - 1, FEWEST, 5_000])
def test_rows_are_bound_and_the_rest_are_literals(rows: int) -> None:
    cells, dialect = Cells.of([(b"%d" % number, b"it's") for number in range(rows)]), replace(BULK, most_bytes=2_500)

    made = list(write_tuple_cells(mapping_of("int", "text"), cells, np.arange(rows), Verb.UPSERT, dialect))

    bound_first = [row for one in made if one.parameters is not None for row in read_back(one, 2)[1]]
    assert bool(bound_first) == (rows >= FEWEST)
    assert bound_first == cells.rows()[: len(bound_first)]
    assert len({one.sql for one in made if one.parameters is not None}) <= 1
    rest = b"".join(one.sql for one in made if one.parameters is None)
    assert rest.count(b"it\\'s") == rows - len(bound_first) < FEWEST


def test_statements_are_as_large_as_the_target_takes() -> None:
    rows: list[Row] = [(b"%d" % number, b"x" * 5_000) for number in range(20 * FEWEST)]
    mapping, large = mapping_of("int", "longblob"), (b"0", b"x" * 400_000)

    for most_bytes in (3 << 20, 1 << 20, FEWEST * 5_100):
        statements = bound(mapping, rows, replace(BULK, most_bytes=most_bytes))
        assert [row for one in statements for row in read_back(one, 2)[1]] == rows[
            : sum(one.rows for one in statements)
        ]
        assert len(rows) - sum(one.rows for one in statements) < FEWEST
        assert all(most_bytes * 0.9 < len(one.parameters or b"") <= most_bytes for one in statements[:-1])
    assert not bound(mapping, rows, replace(BULK, most_bytes=FEWEST * 5_000))
    assert not bound(mapping, rows, replace(BULK, most_rows=1))
    assert not bound(mapping, rows, Dialect())
    # What follows a row that is too large for a statement of many rows is written by literals.
    assert len(bound(mapping, [*rows[:FEWEST], large, *rows], replace(BULK, most_bytes=400_000))) == 1


def test_columns_of_another_type_are_literals() -> None:
    mapping = mapping_of("int", "enum('a','it''s','')", "char(40)")
    first, second, third = mapping.target.columns
    rows: list[Row] = [(b"1", b"a", b"b")] * (FEWEST)

    def into(*columns: object) -> list[SqlStatement]:
        return bound(TableMapping(mapping.source, replace(mapping.target, columns=columns)), rows)  # type: ignore[arg-type]

    assert into(first, second, third)
    assert into(replace(first, data_type="bigint"), second, third)
    assert into(first, second, replace(third, charset="utf8mb4"))
    assert not into(replace(first, data_type="varchar"), second, third)
    assert not into(first, second, replace(third, generated=True))
    # What follows an ENUM with index 0 is written by literals.
    assert not bound(mapping, [*rows, (b"2", INVALID_MEMBER, b"b"), *rows])
    documents: list[Row] = [(b"[1.0]",)] * (FEWEST)
    assert bound(mapping_of(JSON), documents)
    assert not any(bound(mapping_of(kind), [(b"a",)] * (FEWEST)) for kind in NOT_BOUND)
