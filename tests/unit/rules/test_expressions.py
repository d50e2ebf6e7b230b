"""What an expression comes to; tests/integration/rules asks the servers the same."""

from __future__ import annotations

import pytest

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.expressions.compiled import (
    ExpressionNotSupported,
    ExpressionOutOfRange,
    compiled,
)
from airflow_provider_dm.engine.rules.expressions.parts import UnknownColumn
from airflow_provider_dm.engine.schema.codec import Value
from airflow_provider_dm.engine.schema.model import Column, Table


def column(name: str, data_type: str, column_type: str = "", **more: object) -> Column:
    return Column(name, 0, data_type, column_type or data_type, True, **more)  # type: ignore[arg-type]


def table(*columns: Column) -> Table:
    from dataclasses import replace

    return Table(TableName("s", "t"), tuple(replace(one, position=at) for at, one in enumerate(columns)), ())


BIN = {"charset": "utf8mb4", "collation": "utf8mb4_bin"}
T = table(
    column("a", "int"),
    column("u", "bigint", "bigint unsigned"),
    column("d", "decimal", "decimal(10,2)", numeric_precision=10, numeric_scale=2),
    column("f", "float"),
    column("v", "varchar", "varchar(20)", **BIN),
    column("ci", "varchar", "varchar(20)", charset="utf8mb4", collation="utf8mb4_0900_ai_ci"),
    column("l", "varchar", "varchar(20)", charset="latin1", collation="latin1_swedish_ci"),
    column("dt", "datetime", "datetime(3)", datetime_precision=3),
    column("t", "time"),
    column("y", "year"),
    column("e", "enum", "enum('x-small','Small')", charset="utf8mb4", collation="utf8mb4_0900_ai_ci"),
    column("b", "blob"),
    column("ts", "timestamp"),
    column("j", "json"),
)
NULLS: tuple[Value, ...] = (None,) * len(T.columns)


def truth(text: str, **values: bytes) -> bool | None:
    row = tuple(values.get(one.name) for one in T.columns)
    found = compiled(text, T).truth(row)
    assert found is None or isinstance(found, bool)
    return found


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        # DM's own cases (dm/syncer/expr_filter_group_test.go)
        ("a != 1", {"a": b"3"}, True),
        ("a != 1", {"a": b"1"}, False),
        ("f > 1.23", {"f": b"2.0"}, True),
        ("f > a + u", {"f": b"123.44999694824219", "a": b"1", "u": b"2"}, True),
        ("f > a + u", {"f": b"0.009999999776482582", "a": b"23", "u": b"45"}, False),
        ("a IS NULL", {}, True),
        ("d = 10.1", {"d": b"10.10"}, True),
        ("d = 10.1", {"d": b"10.11"}, False),
        ("f < 0.1", {"f": b"0.07999999821186066"}, True),
        ("dt = '2021-06-21 00:00:12'", {"dt": b"2021-06-21 00:00:12.000"}, True),
        ("t = '00:00:12'", {"t": b"00:00:12"}, True),
        ("e = 'X-SMALL'", {"e": b"x-small"}, True),
        ("e = 'X-SMALL'", {"e": b"Small"}, False),
        ("b = x'1234'", {"b": b"\x124"}, True),
        ("b = x'1234'", {"b": b"Vx"}, False),
        ("v = 'abc'", {"v": b"abc"}, True),
        ("y = 2021", {"y": b"2021"}, True),
        ("a % 2 = 0", {"a": b"-4"}, True),
        ("l != 'Müller'", {"l": "müller".encode("latin1")}, False),
        ("l != 'Müller'", {"l": b"X"}, True),
        # Three values
        ("a = NULL", {"a": b"1"}, None),
        ("a <=> NULL", {}, True),
        ("NOT a = 1", {}, None),
        ("a = 1 OR u = 1", {"u": b"1"}, True),
        ("a = 1 AND u = 1", {"u": b"2"}, False),
        ("a = 1 XOR u = 1", {"u": b"1"}, None),
        ("a IN (1, NULL)", {"a": b"1"}, True),
        ("a NOT IN (1, NULL)", {"a": b"2"}, None),
        ("(a = 1) IS NOT TRUE", {}, True),
        ("a % 0 IS NULL", {"a": b"1"}, True),
        # How operators bind
        ("a = 1 OR a = 2 AND u = 3", {"a": b"1", "u": b"9"}, True),
        ("NOT a = 1 AND u = 3", {"a": b"2", "u": b"3"}, True),
        ("a - 1 - 1 = 0", {"a": b"2"}, True),
        ("a * -2 + 7 = 1", {"a": b"3"}, True),
        ("a BETWEEN 1 AND 3 AND u = 1", {"a": b"3", "u": b"1"}, True),
        ("-7 DIV 2 = -3 and -7 % 4 = -3", {}, True),
        # Text
        ("v = 'x'", {"v": b"x  "}, True),
        ("v LIKE 'x'", {"v": b"x  "}, False),
        ("v LIKE '_\\%%'", {"v": "ü%".encode()}, True),
        ("v < 'B'", {"v": b"a"}, False),
        ("v > 'a'", {"v": b"a\t"}, False),
        ("l LIKE 'm_LL%'", {"l": "Müller".encode("latin1")}, True),
        ("ci COLLATE utf8mb4_bin IN ('EU', 'US')", {"ci": b"US"}, True),
        ("ci COLLATE utf8mb4_bin IN ('EU', 'US')", {"ci": b"us"}, False),
        ("ci IS NULL and j is null and ts is null", {}, True),
        ("e IN ('small', 'y')", {"e": b"\xff"}, False),
        ("`a` = 18446744073709551615", {"a": b"-1"}, False),
        ("u = 18446744073709551615", {"u": b"18446744073709551615"}, True),
    ],
)
def test_values(text: str, values: dict[str, bytes], expected: bool | None) -> None:
    assert truth(text, **values) is expected


@pytest.mark.parametrize(
    "text",
    [
        "dt > NOW()",
        "a = '1'",
        "v = 1",
        "ci = 'x'",
        "ci LIKE 'x%'",
        "ts > '2020-01-01'",
        "j = '{}'",
        "a = 1 = 1",
        "a IS NULL IS NULL",
        "a || u",
        "!a",
        "a / 2 = 1",
        "d DIV 2",
        "v",
        "dt",
        "dt = '2021-02-30'",
        "dt = '21-1-1'",
        "t = '1:2'",
        "e < 'x'",
        "e = 'é'",
        "y = 21",
        "a IN (u, 1)",
        "a BETWEEN 1 AND 2.5e0",
        "v REGEXP 'a'",
        "v LIKE v",
        "v LIKE 'a' ESCAPE 'x'",
        "f IN (a)",
        "a = (SELECT 1)",
        "CASE a WHEN 1 THEN 1 END",
        "a = 1;",
        "a = 1 u",
        "",
        "(a",
        "a =",
        "s.t.a = 1",
        "b'1' = a",
        "_utf8mb4'x' = v",
        "d * d * d * d * d * d * d * d = 1",
        "l = '漢'",
        "a ^ 1",
        "a & 1",
        "a << 1",
        "a => 1",
        "BINARY v = 'a'",
        "DATE '2020-01-01' < dt",
        "v = 'a' 'b'",
        "ci COLLATE utf8mb4_unicode_ci = 'a'",
        "a COLLATE utf8mb4_bin = 1",
        "a = 0x41",
        "~a",
    ],
)
def test_what_is_not_certain_is_refused(text: str) -> None:
    with pytest.raises(ExpressionNotSupported):
        compiled(text, T)


def test_an_unknown_column_is_told_apart() -> None:
    with pytest.raises(UnknownColumn):
        compiled("nobody = 1", T)


def test_a_result_that_the_server_has_no_room_for_stops() -> None:
    found = compiled("u - 1 > 0", T)
    row = tuple(b"0" if one.name == "u" else None for one in T.columns)
    with pytest.raises(ExpressionOutOfRange, match="u - 1 > 0"):
        found.is_true(row)


def test_null_is_not_true() -> None:
    assert compiled("a = 1", T).is_true(NULLS) is False
