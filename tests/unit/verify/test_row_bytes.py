"""Rows as bytes: the fast way (as they travel) and the plain way (split, changed, packed) agree."""

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.text_rows import TextCells, split_row
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.verify.row_bytes import RowForm, packed, source_form, target_form
from tests.unit.ddl.tracked import table_of

cells = st.tuples(*[st.none() | st.binary(max_size=400)] * 3)


@given(cells)
def test_packing_is_what_splitting_undoes(row: TextCells) -> None:
    assert split_row(packed(row), 3) == row


@given(cells)
def test_a_packet_without_conversions_is_canonical(row: TextCells) -> None:
    packet = packed(row)

    assert RowForm("", ((), (), ())).packer()(packet) == packet
    assert RowForm("", ((bytes,), (), (bytes, bytes))).packer()(packet) == packet


def test_wider_types_of_the_target_compare_equal() -> None:
    source = table_of(
        "id int(6) unsigned zerofill PRIMARY KEY, d decimal(9,2), at datetime, bits bit(4), "
        "text varchar(9) COLLATE latin1_bin",
        TableName("a", "t"),
    )
    target = table_of(
        "text text, id bigint PRIMARY KEY, bits bit(20), d decimal(12,4), at datetime(6)", TableName("b", "t")
    )
    mapping = TableMapping(source, target)

    mysql = CAPABILITIES[Flavour.MYSQL]
    here, there = (pickle.loads(pickle.dumps(form(mapping, mysql))) for form in (source_form, target_form))

    assert here.select == "`id`, `d`, `at`, `bits`, CONVERT(`text` USING utf8mb4)"
    assert there.select == "`id`, `d`, `at`, `bits`, `text`"
    same = source_form(TableMapping(source, source), mysql)
    assert same.select == "`id`, `d`, `at`, `bits`, `text`", "within one charset bytes are compared"
    left = here.packer()(packed((b"000007", b"1.50", b"2020-01-01 10:00:00", b"\x05", None)))
    right = there.packer()(packed((b"7", b"1.5000", b"2020-01-01 10:00:00.000000", b"\0\0\x05", None)))
    assert left == right


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"1.0", b"1"),
        (b"3.0e5", b"300000"),
        (b'{"a": 1.50, "bb": -0.0, "b": [1e20]}', b'{"a": 1.5, "b": [100000000000000000000], "bb": -0}'),
        (b"18446744073709551616", b"18446744073709552000"),
        (b"[4571924835867031600.0, 4571924835867031552]", b"[4571924835867031600, 4571924835867031552]"),
        (b'"\\u00e9\\/"', '"é/"'.encode()),
    ],
)
def test_json_is_compared_as_values_where_the_target_has_no_decimals(written: bytes, shown: bytes) -> None:
    table = table_of("j json")
    mapping = TableMapping(table, table)

    def bytes_of(flavour: Flavour, value: bytes) -> bytes:
        return source_form(mapping, CAPABILITIES[flavour]).packer()(packed((value,)))

    assert bytes_of(Flavour.TIDB, written) == bytes_of(Flavour.TIDB, shown)
    assert bytes_of(Flavour.TIDB, written) != bytes_of(Flavour.TIDB, b"[7]")
    assert bytes_of(Flavour.MYSQL, written) != bytes_of(Flavour.MYSQL, shown)

    text = replace(table.columns[0], data_type="longtext", charset="utf8mb4", collation="utf8mb4_bin")
    mapping = TableMapping(replace(table, columns=(text,)), table)
    assert bytes_of(Flavour.MYSQL, written) == bytes_of(Flavour.MYSQL, shown)
