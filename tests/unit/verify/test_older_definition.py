"""By which definition rows are compared whose table the target has not followed yet."""

from dataclasses import replace

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.verify.verification import readable_definition

ID = Column("id", 0, "int", "int", nullable=False)
V = Column("v", 1, "varchar", "varchar(9)", nullable=True, charset="utf8mb4")
W = Column("w", 2, "int", "int", nullable=True)
PRIMARY = Index("PRIMARY", ("id",), prefixes=(None,))
KNOWN = Table(TableName("shop", "t"), (ID, V), (PRIMARY,))


def test_a_new_column_of_the_source_is_left_out() -> None:
    assert readable_definition(KNOWN, replace(KNOWN, columns=(ID, V, W))) == KNOWN


def test_pages_are_read_by_a_key_of_today() -> None:
    by_w, by_v = Index("w", ("w",), prefixes=(None,)), Index("V", ("V",), prefixes=(None,))
    now = replace(KNOWN, columns=(ID, V, W), unique_keys=(by_w, by_v))
    assert readable_definition(KNOWN, now) == replace(KNOWN, unique_keys=(by_v,))


def test_a_dropped_column_is_not_compared_by_the_older_definition() -> None:
    for columns in ((ID,), (ID, replace(V, charset="latin1")), (ID, replace(V, data_type="text")), (ID, W)):
        now = replace(KNOWN, columns=columns)
        assert readable_definition(KNOWN, now) is now
