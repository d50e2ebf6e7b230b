"""A kernel makes of rows the same tuples as the literals of each row."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.downstream import tuples
from airflow_provider_dm.engine.downstream.row_statements import Dialect, Verb, write_rows
from airflow_provider_dm.engine.downstream.tuples import write_tuple_cells, write_values
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import LiteralStyle, Row, codec_for, row_literals
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.schema.strings import INVALID_MEMBER

TEXT = st.text(st.sampled_from("aZ9ä€😀'\\\0\n\"\x1a%`-"), max_size=40).map(str.encode)
CLOCK = st.sampled_from([b"00:00:00", b"-838:59:59.000000", b"23:59:59.5"])
DAY = st.sampled_from([b"0000-00-00", b"9999-12-31", b"2024-02-30", b"0000-01-00"])
BYTES = st.binary(max_size=40)
FINITE = partial(st.floats, allow_nan=False, allow_infinity=False)
KINDS: dict[str, tuple[str, str | None, st.SearchStrategy[bytes]]] = {
    **{kind: (kind, None, st.integers(-(2**63), 2**64 - 1).map(lambda one: b"%d" % one)) for kind in ("int", "bigint")},
    "decimal(65,30)": ("decimal", None, st.sampled_from([b"0.00", b"-1.50", b"9" * 35 + b"." + b"9" * 30])),
    "float": ("float", None, FINITE(width=32).map(lambda one: repr(one).encode())),
    "double": ("double", None, FINITE().map(lambda one: repr(one).encode())),
    "bit(64)": ("bit", None, st.binary(min_size=1, max_size=8)),
    "year": ("year", None, st.sampled_from([b"0000", b"2155"])),
    "date": ("date", None, DAY),
    "time(6)": ("time", None, CLOCK),
    "datetime(6)": ("datetime", None, st.tuples(DAY, CLOCK).map(b" ".join)),
    "timestamp": ("timestamp", None, st.just(b"2038-01-19 03:14:07")),
    "varchar(99)": ("varchar", "utf8mb4", TEXT),
    "text": ("text", "utf8mb3", TEXT),
    "char(40)": ("char", "latin1", TEXT | BYTES),
    "varchar(40)": ("varchar", "gbk", TEXT | BYTES),
    "tinytext": ("tinytext", "utf16", BYTES),
    "varbinary(99)": ("varbinary", None, BYTES),
    "binary(4)": ("binary", None, st.binary(min_size=4, max_size=4)),
    "longblob": ("longblob", None, BYTES),
    "enum('a','it''s','')": ("enum", "utf8mb4", st.sampled_from([b"a", b"it's", b""])),
    "set('a','it''s')": ("set", "utf8mb4", st.sampled_from([b"", b"a,it's"])),
    "json": ("json", None, st.sampled_from([b'{"a": "it\'s\\\\"}', b"[1.0, null]", b'"\\u00e4"'])),
    "point": ("point", None, BYTES),
    "vector(2)": ("vector", None, st.binary(min_size=8, max_size=8)),
    "uuid": ("uuid", None, st.just(b"123e4567-e89b-12d3-a456-426655440000")),
    "inet4": ("inet4", None, st.just(b"255.0.0.1")),
    "inet6": ("inet6", None, st.just(b"::1")),
}  # fmt: skip
FLAVOURS = (Flavour.MARIADB, Flavour.MYSQL)


def mapping_of(*kinds: str) -> TableMapping:
    columns = tuple(
        Column(f"c{place}", place, KINDS[kind][0], kind, nullable=True, charset=KINDS[kind][1])
        for place, kind in enumerate(kinds)
    )
    table = Table(TableName("shop", "t"), columns, (Index("PRIMARY", ("c0",), prefixes=(None,)),))
    return TableMapping(table, table)


def both(mapping: TableMapping, rows: list[Row], verb: Verb, dialect: Dialect) -> tuple[list[bytes], list[bytes]]:
    """Return the statements that are made by row, and by the kernel."""
    literals = row_literals(mapping.source, dialect.server.flavour)
    by_row = [*write_rows(mapping, map(literals, rows), verb, dialect=dialect)]
    numbers = np.arange(len(rows))
    by_kernel = [*write_tuple_cells(mapping, Cells.of(rows), numbers, verb, dialect)] if rows else []
    assert [one.key for one in by_row] == [one.key for one in by_kernel]
    return [one.sql for one in by_row], [one.sql for one in by_kernel]


@pytest.mark.parametrize("flavour", FLAVOURS, ids=str)
@given(st.data())
@settings(max_examples=300)
def test_all_types_are_written_as_python_writes_them(flavour: Flavour, choose: st.DataObject) -> None:
    kinds = choose.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=8))
    row = st.tuples(*[st.none() | KINDS[kind][2] for kind in kinds])
    rows = choose.draw(st.lists(row, min_size=1, max_size=6))
    verb = choose.draw(st.sampled_from((Verb.INSERT, Verb.REPLACE, Verb.UPSERT)))

    plain, fast = both(mapping_of(*kinds), rows, verb, Dialect(CAPABILITIES[flavour]))

    assert fast == plain


@pytest.mark.parametrize("flavour", FLAVOURS, ids=str)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_kernel_writes_every_type_but_documents_that_are_binary(kind: str, flavour: Flavour) -> None:
    mapping = mapping_of(kind)

    written = tuples._tuples(Cells.of([(None,)]), np.arange(1), mapping, flavour)

    assert build.ready()
    assert (written is None) == (kind == "json" and flavour is Flavour.MYSQL)


def test_each_style_has_a_type_here() -> None:
    columns = [column for kind in KINDS for column in mapping_of(kind).source.columns]

    assert {codec_for(TableName("shop", "t"), column).style for column in columns} == set(LiteralStyle)


@example(b"'", 0)
@example(b"1234567\\", 1)
@given(TEXT, st.integers(0, 40))
def test_escaped_characters_may_be_at_any_position(value: bytes, before: int) -> None:
    plain, fast = both(mapping_of("varchar(99)"), [(b"x" * before + value,)], Verb.INSERT, Dialect())

    assert fast == plain


@pytest.mark.parametrize("kind", ["char(40)", "varchar(40)", "tinytext"])
@given(st.lists(st.sampled_from("aé€Z'\\").map(str), max_size=4).map("".join))
@example("aZ")
def test_text_for_a_server_of_utf_8_is_never_introduced(kind: str, text: str) -> None:
    charset = mapping_of(kind).source.columns[0].charset
    codec = {"latin1": "cp1252", "gbk": "gb18030", "utf16": "utf-16-be"}[str(charset)]
    rows: list[Row] = [(text.replace("€", "ê").encode(codec),), (None,)]

    plain, fast = both(mapping_of(kind), rows, Verb.INSERT, Dialect(CAPABILITIES[Flavour.TIDB]))

    assert fast == plain
    assert b"_" + str(charset).encode() not in plain[0]


def test_a_column_that_the_target_does_not_get_is_left_out() -> None:
    mapping = mapping_of("int", "varchar(99)", "int")
    computed = replace(mapping.target.columns[1], generated=True, expression="1")
    changed = replace(mapping.target, columns=(mapping.target.columns[0], computed, mapping.target.columns[2]))

    plain, fast = both(TableMapping(mapping.source, changed), [(b"1", b"a", b"2")], Verb.INSERT, Dialect())

    assert fast == plain == [b"INSERT INTO `shop`.`t` (`c0`, `c2`) VALUES (1,2)"]


def test_an_invalid_member_gets_its_own_statement() -> None:
    mapping = mapping_of("enum('a','it''s','')")
    rows: list[Row] = [(b"a",), (INVALID_MEMBER,), (b"a",)]

    plain, fast = both(mapping, rows, Verb.INSERT, Dialect())

    assert fast == plain
    assert len(fast) == 3


@given(
    st.lists(st.integers(0, 70), min_size=1, max_size=30),
    st.integers(1, 9),
    st.sampled_from([120, 200, 400]),
    st.data(),
)
def test_statements_hold_the_rows_that_were_requested(
    sizes: list[int], most_rows: int, most_bytes: int, choose: st.DataObject
) -> None:
    mapping, dialect = mapping_of("longblob", "int"), Dialect(most_bytes=most_bytes, most_rows=most_rows)
    rows = [(b"\xff" * size, b"%d" % number) for number, size in enumerate(sizes)]
    chosen = np.array(choose.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, unique=True)), np.int64)
    literals = row_literals(mapping.source, Flavour.MARIADB)

    made = list(write_tuple_cells(mapping, Cells.of(rows), chosen, Verb.INSERT, dialect))

    head = b"INSERT INTO `shop`.`t` (`c0`, `c1`) VALUES "
    texts = [b"(" + b",".join(literals(rows[number])) + b")" for number in chosen.tolist()]
    assert b",".join(one.sql.removeprefix(head) for one in made) == b",".join(texts)
    assert all(one.rows <= most_rows and (one.rows == 1 or len(one.sql) <= most_bytes) for one in made)
    assert sum(one.rows for one in made) == len(chosen)


def test_a_row_that_is_larger_than_all_others_together() -> None:
    rows: list[Row] = [(b"a",), (b"\0" * 100_000,), (b"b",)] * 40

    plain, fast = both(mapping_of("longblob"), rows, Verb.REPLACE, Dialect(most_rows=15))

    assert b"".join(fast).count(b"x'") == len(rows)
    assert [one[-4000:] for one in fast] == [one[-4000:] for one in plain]


def test_python_rows_and_cells_become_the_same_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    mapping, dialect = mapping_of("int", "text"), Dialect()
    rows: list[Row] = [(b"%d" % number, None if number % 3 else b"it's") for number in range(700)]
    literals = row_literals(mapping.source, Flavour.MARIADB)
    fast = list(write_values(mapping, rows, Verb.UPSERT, literals, dialect=dialect))
    monkeypatch.setattr(tuples, "FEWEST_FOR_KERNEL", len(rows) + 1)

    assert fast == list(write_values(mapping, rows, Verb.UPSERT, literals, dialect=dialect))
