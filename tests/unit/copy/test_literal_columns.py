"""Literals by column are literals by row."""

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.copy.literal_columns import page_literals
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.codec import row_literals
from airflow_provider_dm.engine.schema.model import Column, Table

COLUMNS = {
    "int": st.integers().map(lambda number: b"%d" % number),
    "decimal": st.just(b"-1.50"),
    "double": st.just(b"0.1"),
    "datetime": st.just(b"2020-01-01 00:00:00"),
    "varchar": st.text(st.sampled_from("aä'\\\0\n\""), max_size=5).map(str.encode),
    "blob": st.binary(max_size=5),
    "bit": st.binary(min_size=1, max_size=1),
}
TABLE = Table(
    TableName("a", "t"),
    tuple(
        Column(f"c{number}", number, kind, kind, nullable=True, charset="utf8mb4" if kind == "varchar" else None)
        for number, kind in enumerate(COLUMNS)
    ),
    (),
)


@given(st.lists(st.tuples(*[st.none() | values for values in COLUMNS.values()]), max_size=6))
def test_a_page_is_written_as_its_rows_are(rows: list[tuple[bytes | None, ...]]) -> None:
    assert page_literals(TABLE, Flavour.MYSQL)(rows) == [row_literals(TABLE, Flavour.MYSQL)(row) for row in rows]


@given(st.lists(st.tuples(*COLUMNS.values()), max_size=6))
def test_also_without_nulls(rows: list[tuple[bytes, ...]]) -> None:
    assert page_literals(TABLE, Flavour.MYSQL)(rows) == [row_literals(TABLE, Flavour.MYSQL)(row) for row in rows]
