"""The statements that are accepted as a table's definition."""

import pytest

from airflow_provider_dm.engine.downstream.schema_by_hand import definition_in
from airflow_provider_dm.engine.downstream.table_definitions import Definition
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.identifiers import TableName

NAME = TableName("shop", "or`ders")
FULL = "CREATE TABLE `shop`.`or``ders`"


@pytest.mark.parametrize(
    "written", ["CREATE TABLE `or``ders` (a int)", "create table shop . `or``ders` (a int) ;\n", f"{FULL} (a int)"]
)
def test_a_definition_is_kept_with_the_tables_full_name(written: str) -> None:
    found = definition_in(written, NAME)

    assert found.create_sql.endswith("`shop`.`or``ders` (a int)")
    assert definition_in(found.create_sql, NAME) == found


def test_text_after_the_columns_is_kept() -> None:
    tail = "(a int) ENGINE=InnoDB COLLATE=utf8mb4_bin COMMENT='x;' \n/*!50100 PARTITION BY HASH (a) */"

    found = definition_in(f"CREATE TABLE IF NOT EXISTS `or``ders` {tail}", NAME, collation="latin1_bin")

    assert found == Definition(f"CREATE TABLE IF NOT EXISTS `shop`.`or``ders` {tail}", "utf8mb4_bin")


def test_the_collation_is_that_of_the_table_where_the_text_has_none() -> None:
    assert (
        definition_in(f"{FULL} (a int) DEFAULT CHARSET=latin1", NAME, collation="latin1_bin").collation == "latin1_bin"
    )


def test_the_name_in_a_given_definition_is_replaced_by_the_tables_name() -> None:
    found = definition_in("CREATE TABLE `all` (a int)", NAME, called=TableName("merged", "all"))

    assert found.create_sql == f"{FULL} (a int)"


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("CREATE TABLE orders (a int)", "it is the definition of shop.orders"),
        ("CREATE TABLE other.`or``ders` (a int)", "it is the definition of other.or`ders"),
        (f"{FULL} LIKE shop.t", "not a CREATE TABLE with columns"),
        (f"{FULL} SELECT 1 AS a", "not a CREATE TABLE with columns"),
        ("ALTER TABLE shop.`or``ders` ADD b int", "not a CREATE TABLE with columns"),
        (f"{FULL} (a frob int)", "frob|FROB"),
        (f"{FULL} (a int); DROP TABLE shop.t", "another|DROP"),
        ("", "kind"),
    ],
)
def test_a_text_that_does_not_define_this_table_is_refused(written: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        definition_in(written, NAME)
