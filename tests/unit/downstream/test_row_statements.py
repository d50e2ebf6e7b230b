"""The SQL text of the merger."""

from dataclasses import replace

import pytest

from airflow_provider_dm.engine.downstream.row_statements import (
    UNKNOWN,
    Dialect,
    Verb,
    count_rows,
    delete_image,
    delete_rows,
    differing_rows,
    write_rows,
)
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.model import Table
from tests.unit.ddl.tracked import table_of


def table(name: str, key: str = "") -> Table:
    text = "`na``me` varchar(9) COLLATE utf8mb4_general_ci"
    return table_of(f"id bigint NOT NULL, {text}{key and f', PRIMARY KEY ({key})'}", TableName("shop", name))


ITEM = TableMapping(table("item_01", "id"), table("item", "id"))
PAIR = TableMapping(table("pair", "`na``me`, id"), table("pair", "`na``me`, id"))
LOG = TableMapping(table("log"), table("log"))
ROWS = [(b"1", b"'a'"), (b"2", b"NULL")]


@pytest.mark.parametrize(
    ("verb", "head", "tail"),
    [
        (Verb.INSERT, "INSERT", ""),
        (Verb.REPLACE, "REPLACE", ""),
        (Verb.UPSERT, "INSERT", " ON DUPLICATE KEY UPDATE `id` = VALUES(`id`), `na``me` = VALUES(`na``me`)"),
    ],
)
def test_rows_of_one_table_are_one_statement(verb: Verb, head: str, tail: str) -> None:
    (statement,) = write_rows(ITEM, ROWS, verb)

    assert statement.sql.decode() == f"{head} INTO `shop`.`item` (`id`, `na``me`) VALUES (1,'a'),(2,NULL){tail}"
    assert (statement.rows, statement.table) == (2, TableName("shop", "item"))


def test_the_key_of_an_only_row_is_known() -> None:
    parts = write_rows(PAIR, [(b"1", b"'a'"), (b"2", b"'b'")], Verb.INSERT, dialect=Dialect(most_rows=1))
    assert [part.key for part in parts] == ["`na``me` = 'a', `id` = 1", "`na``me` = 'b', `id` = 2"]
    assert [part.key for part in write_rows(PAIR, [(b"1", b"'a'"), (b"2", b"'b'")], Verb.INSERT)] == [""]
    assert [part.key for part in write_rows(LOG, [(b"1", b"'a'")], Verb.INSERT)] == [""]


def test_mysql_needs_an_alias_where_others_need_values() -> None:
    (statement,) = write_rows(ITEM, ROWS, Verb.UPSERT, dialect=Dialect(CAPABILITIES[Flavour.MYSQL]))

    assert statement.sql.decode().endswith(
        " AS _new ON DUPLICATE KEY UPDATE `id` = _new.`id`, `na``me` = _new.`na``me`"
    )


def test_keys_are_a_list_of_values_or_of_tuples() -> None:
    (one,) = delete_rows(ITEM, [(b"1",), (b"2",)])
    (two,) = delete_rows(PAIR, [(b"'a'", b"1")])
    (counted,) = count_rows(ITEM, [(b"1",)])

    assert one.sql == b"DELETE FROM `shop`.`item` WHERE `id` IN (1,2)"
    assert two.sql == b"DELETE FROM `shop`.`pair` WHERE (`na``me`,`id`) IN (('a',1))"
    assert counted.sql == b"SELECT COUNT(*) FROM `shop`.`item` WHERE `id` IN (1) FOR UPDATE"
    with pytest.raises(ValueError, match="no key"):
        list(delete_rows(LOG, [(b"1",)]))


def test_an_image_is_compared_byte_by_byte_also_where_a_collation_is_not() -> None:
    assert delete_image(LOG, (b"1", b"'a'"), 3).sql.decode() == (
        "DELETE FROM `shop`.`log` WHERE `id` <=> 1 AND `na``me` <=> 'a' "
        "AND CONVERT(`na``me` USING binary) <=> CONVERT(CONVERT('a' USING utf8mb4) USING binary) LIMIT 3"
    )
    assert delete_image(LOG, (b"1", b"NULL"), 1).sql.endswith(b"`na``me` IS NULL LIMIT 1")


@pytest.mark.parametrize(
    ("kind", "literal", "condition"),
    [
        ("point", "x'00'", "`c` <=> x'00'"),
        ("vector(1)", "x'00'", "CAST(`c` AS BINARY) <=> x'00'"),
        ("enum('a')", "0", "`c` + 0 = 0"),
        (
            "json",
            "'1'",
            "CAST(CONVERT(`c` USING utf8mb4) AS BINARY) <=> CAST(CONVERT(CAST('1' AS JSON) USING utf8mb4) AS BINARY)",
        ),
    ],
)
def test_an_image_of_other_types(kind: str, literal: str, condition: str) -> None:
    one = table_of(f"c {kind}", TableName("shop", "log"))
    sql = delete_image(TableMapping(one, one), (literal.encode(),), 1).sql.decode()
    assert sql == f"DELETE FROM `shop`.`log` WHERE {condition} LIMIT 1"


COMPUTED = table_of(
    "id int PRIMARY KEY, twice int AS (2 * id), e enum('a') CHARACTER SET latin1", TableName("shop", "sums")
)
SUMS = TableMapping(COMPUTED, COMPUTED)


def test_columns_that_the_target_computes_are_left_out() -> None:
    (statement,) = write_rows(SUMS, [(b"1", b"2", b"'a'"), (b"3", b"6", b"NULL")], Verb.UPSERT)
    assert statement.sql == (
        b"INSERT INTO `shop`.`sums` (`id`, `e`) VALUES (1,'a'),(3,NULL) "
        b"ON DUPLICATE KEY UPDATE `id` = VALUES(`id`), `e` = VALUES(`e`)"
    )
    assert b"twice" not in delete_image(SUMS, (b"1", b"2", b"'a'"), 1).sql


def test_values_that_the_target_computes_are_compared_with_the_source() -> None:
    rows = [(b"1", b"2", b"'a'"), (b"3", UNKNOWN, b"NULL"), (b"4", b"NULL", b"NULL")]
    (statement,) = write_rows(SUMS, rows, Verb.INSERT)
    assert statement.computing is not None
    (look,) = statement.computing.differing()
    assert look.sql == (
        b"SELECT COUNT(*) FROM `shop`.`sums` WHERE (`id` = 1 AND (`twice` <=> 2) IS NOT TRUE) "
        b"OR (`id` = 4 AND (`twice` IS NULL) IS NOT TRUE)"
    )
    keyless = replace(SUMS, source=replace(COMPUTED, unique_keys=()), target=replace(COMPUTED, unique_keys=()))
    (look,) = differing_rows(keyless, rows[:1], keyless.computed)
    assert b"WHERE (`id` <=> 1 AND `e` <=> 'a' AND " in look.sql
    assert list(differing_rows(SUMS, rows[1:2], SUMS.computed)) == []
    many = differing_rows(SUMS, [(b"%d" % n, b"0", b"NULL") for n in range(250)], SUMS.computed)
    assert [one.rows for one in many] == [100, 100, 50]


@pytest.mark.parametrize(
    ("flavour", "head"),
    [
        (Flavour.MARIADB, "SET STATEMENT sql_mode='{}' FOR REPLACE INTO"),
        (Flavour.MYSQL, "REPLACE /*+ SET_VAR(sql_mode='{}') */ INTO"),
        (Flavour.TIDB, "REPLACE INTO"),
    ],
)
def test_an_enum_s_invalid_value_goes_in_a_statement_of_its_own(flavour: Flavour, head: str) -> None:
    rows = [(b"1", b"2", b"'a'"), (b"2", b"4", b"0"), (b"3", b"6", b"0"), (b"4", b"8", b"NULL")]

    before, lenient, after = write_rows(SUMS, iter(rows), Verb.REPLACE, dialect=Dialect(CAPABILITIES[flavour]))

    assert [one.rows for one in (before, lenient, after)] == [1, 2, 1]
    assert before.invalid == after.invalid == frozenset()
    assert lenient.invalid == {("e", 1), ("e", 2)}
    mode = "ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
    assert lenient.sql.decode() == f"{head.format(mode)} `shop`.`sums` (`id`, `e`) VALUES (2,0),(3,0)"
    assert [one.session_mode for one in (before, lenient, after)] == ["", "" if "{}" in head else mode, ""]


def test_rows_with_invalid_values_are_counted_in_each_statement() -> None:
    rows = [(b"%d" % number, b"0", b"0") for number in range(5)]
    statements = list(write_rows(SUMS, rows, Verb.INSERT, dialect=Dialect(most_rows=2)))
    assert [one.invalid for one in statements] == [{("e", 1), ("e", 2)}, {("e", 1), ("e", 2)}, {("e", 1)}]


def test_statements_end_at_rows_or_bytes() -> None:
    rows = [(b"%d" % number, b"'" + b"x" * 100 + b"'") for number in range(10)]

    assert [one.rows for one in write_rows(ITEM, rows, Verb.INSERT, dialect=Dialect(most_rows=4))] == [4, 4, 2]
    assert all(len(one.sql) <= 400 for one in write_rows(ITEM, rows, Verb.INSERT, dialect=Dialect(most_bytes=400)))
    larger = [(b"1", b"'a'"), (b"2", b"'" + b"x" * 500 + b"'"), (b"3", b"'c'")]
    assert [one.rows for one in write_rows(ITEM, larger, Verb.INSERT, dialect=Dialect(most_bytes=200))] == [1, 1, 1]
    assert list(write_rows(ITEM, [], Verb.INSERT)) == []


@pytest.mark.parametrize("key", [", PRIMARY KEY (id)", ""])
@pytest.mark.parametrize("verb", [Verb.UPSERT, Verb.REPLACE])
def test_rows_whose_enum_is_empty_are_deleted_in_tidb_before_they_are_written(verb: Verb, key: str) -> None:
    """Without a key no row can be replaced."""
    one = table_of(f"id int NOT NULL, e enum('','a'){key}")
    both = TableMapping(one, one)
    rows = [(b"1", b"'a'"), (b"2", b"''"), (b"3", b"0")]

    found = [one.sql.decode() for one in write_rows(both, rows, verb, dialect=Dialect(CAPABILITIES[Flavour.TIDB]))]

    values = [sql.split(" VALUES ")[1].split(" ON ")[0] for sql in found if not sql.startswith("DELETE")]
    if key:
        assert [found[1], values] == ["DELETE FROM `shop`.`t` WHERE `id` IN (2,3)", ["(1,'a')", "(2,'')", "(3,0)"]]
        assert "ON DUPLICATE" not in "".join(found[2:])
    else:
        assert values == ["(1,'a'),(2,'')", "(3,0)"]
