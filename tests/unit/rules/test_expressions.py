"""The value of an expression; tests/integration/rules compares it with the servers' value."""

import zlib
from functools import cache

import pytest

from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.rules.errors import ExpressionNotSupported, ExpressionOutOfRange, UnknownColumn
from airflow_provider_dm.engine.rules.expressions.compiled import compiled
from airflow_provider_dm.engine.rules.expressions.expression_session import ExpressionSession
from airflow_provider_dm.engine.schema.codec import Value
from airflow_provider_dm.engine.schema.collation_weights import CollationWeights
from tests.unit.ddl.tracked import table_of

T = table_of(
    "a int, u bigint unsigned, d decimal(10,2), f float, v varchar(20), ci varchar(20) COLLATE utf8mb4_0900_ai_ci, "
    "sp varchar(20) COLLATE utf8mb4_spanish_ci, l varchar(20) COLLATE latin1_swedish_ci, dt datetime(3), t time, "
    "y year, e enum('x-small','Small') COLLATE utf8mb4_0900_ai_ci, b blob, ts timestamp NULL, j json"
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
        # CASE and functions
        ("CASE WHEN a > 1 THEN u WHEN a = 1 THEN 7 ELSE NULL END = 7", {"a": b"1", "u": b"2"}, True),
        ("CASE a WHEN NULL THEN 1 WHEN 2 THEN 2 END IS NULL", {}, True),
        ("CASE v WHEN 'x' THEN 1 ELSE 0 END", {"v": b"x"}, True),
        ("IF(a, d, 1) = 1.00", {"a": b"0"}, True),
        ("IFNULL(l, 'MÜ') = 'mü'", {}, True),
        ("COALESCE(NULL, a, 3) = 3 AND NULLIF(u, 1) IS NULL", {"u": b"1"}, True),
        ("IFNULL(u, 0) - 1 = -1", {}, True),
        ("ABS(a) = 3 AND SIGN(d) = -1 AND MOD(a, 2) = -1", {"a": b"-3", "d": b"-0.01"}, True),
        ("GREATEST(a, d) = 2 AND LEAST(a, NULL, 1) IS NULL", {"a": b"2", "d": b"1.99"}, True),
        ("LENGTH(v) = 3 AND CHAR_LENGTH(v) = 2", {"v": "éa".encode()}, True),
        ("LEFT(v, 1) = 'é' AND RIGHT(v, -1) = '' AND SUBSTR(v, -1, 9) = 'a'", {"v": "éa".encode()}, True),
        ("TRIM(v) LIKE 'x' AND CONCAT(v, '|') LIKE ' x |'", {"v": b" x "}, True),
        ("YEAR(dt) = 2020 AND SECOND(dt) = 5 AND DATE(dt) = '2020-02-29'", {"dt": b"2020-02-29 01:02:05.999"}, True),
        ("HOUR(t) = 838 AND MINUTE(t) = 59", {"t": b"-838:59:01"}, True),
        (
            "dt IN ('2020-01-01') AND t IN ('00:00:01.5') AND y IN (2020) AND b IN (x'61', 'b')",
            {"dt": b"2020-01-01 00:00:00.000", "t": b"00:00:01.5", "y": b"2020", "b": b"b"},
            True,
        ),
        ("u = 18446744073709551615", {"u": b"18446744073709551615"}, True),
    ],
)
def test_expressions_have_the_expected_values(text: str, values: dict[str, bytes], expected: bool | None) -> None:
    assert truth(text, **values) is expected


@pytest.mark.parametrize(
    "text",
    [
        "dt > NOW()",
        "a = '1'",
        "v = 1",
        "sp = 'x'",
        "sp LIKE 'x%'",
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
        "CASE a END",
        "CASE a WHEN u THEN 1 END",  # MySQL takes -1 for 18446744073709551615
        "CASE WHEN a THEN 1",
        "CASE WHEN a THEN v ELSE 1 END",
        "IF(a, 1)",
        "IF(v, 1, 2)",
        "IFNULL(t, t) < '12:00:00'",  # MySQL compares the texts
        "IFNULL(v, l) = 'a'",
        "IF(a, 'x', 'y') = 'x'",
        "COALESCE(l, '漢') = 'a'",
        "IFNULL(a, u) % 2 = 1",  # a decimal
        "CONCAT(v, 1) = 'a1'",
        "LEFT(a, 1) = 1",
        "LEFT(sp, 1) = 'a'",
        "FLOOR(d) = 1",
        "YEAR(ts) = 2020",
        "YEAR('2020-01-01') = 2020",
        "UPPER(v) = 'A'",
        "TRIM(BOTH 'x' FROM v) = 'A'",
        "t IN (t)",
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
        "ci COLLATE utf8mb4_uca1400_ai_ci = 'a'",
        "a COLLATE utf8mb4_bin = 1",
        "a = 0x41",
        "u = -9007199254740993e0",
        "~a",
    ],
)
def test_statements_with_an_uncertain_result_are_refused(text: str) -> None:
    with pytest.raises(ExpressionNotSupported):
        compiled(text, T)


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("ts = '2024-03-31 02:30:00'", "Europe/London", True),  # an hour after the change of the clocks
        ("ts < dt AND ts > '2024-03-31 02:29:59.9'", "Europe/London", True),
        ("ts = '2024-03-31'", "-01:30", True),
        ("YEAR(ts) = 2024 AND HOUR(ts) = 7 AND DATE(ts) = '2024-03-31'", "+05:30", True),
    ],
)
def test_a_timestamp_is_a_local_time_of_the_tasks_zone(text: str, zone: str, expected: bool) -> None:
    values = {"ts": b"2024-03-31 01:30:00", "dt": b"2024-03-31 03:00:00.000"}
    row = tuple(values.get(one.name) for one in T.columns)

    assert compiled(text, T, ExpressionSession(zone)).truth(row) is expected


@pytest.mark.parametrize(("zone", "why"), [("", "no `timezone`"), ("SYSTEM", "SYSTEM` is not known")])
def test_a_timestamp_of_an_unknown_zone_is_refused(zone: str, why: str) -> None:
    with pytest.raises(ExpressionNotSupported, match=why):
        compiled("ts > '2020-01-01'", T, ExpressionSession(zone))
    assert compiled("ts IS NULL", T, ExpressionSession(zone)).truth(NULLS) is True


@cache
def weights() -> tuple[CollationWeights, CollationWeights]:
    """Made by the tests that compare: a second of work, which the other sessions need not do to collect this file."""
    return weights_of("utf8mb4_0900_ai_ci"), weights_of("utf8mb4_general_ci")


def weights_of(collation: str) -> CollationWeights:
    """A collation of our own: letters weigh as their capitals, 'ß' as two, what follows U+0300 as nothing."""

    def weight(code: int) -> bytes:
        if 0xD800 <= code < 0xE000 or 0x300 <= code < 0x370:
            return b""
        return b"".join(ord(one).to_bytes(4, "big") for one in chr(code).upper())

    found = [weight(code) for code in range(0x32400)]
    return CollationWeights(collation, "ours", zlib.compress(bytes(map(len, found)) + b"".join(found)))


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("ci = 'STRASSE'", "straße", True),
        ("ci = 'a'", "a ", False),  # a collation of MySQL 8 pads nothing
        ("ci COLLATE utf8mb4_general_ci = 'a'", "A\u0301  ", True),
        ("ci COLLATE utf8mb4_general_ci > 'a'", "a\t", False),
        ("ci < 'b'", "A", True),
        ("ci IN ('x', 'É')", "é", True),
        ("ci LIKE 'é_S%'", "ÉAs", True),
        ("ci LIKE 'ss'", "ß", False),  # LIKE compares character by character
        ("LEFT(ci, 1) = 'É'", "éa", True),
    ],
)
def test_text_is_compared_by_the_weights_of_its_characters(text: str, value: str, expected: bool) -> None:
    found = compiled(text, T, ExpressionSession(weights=weights()))
    row = tuple(value.encode() if one.name == "ci" else None for one in T.columns)

    assert found.truth(row) is expected
    assert len(found.collations) == 1


def test_a_character_whose_weight_is_unknown_stops() -> None:
    found = compiled("ci = 'a'", T, ExpressionSession(weights=weights()))
    with pytest.raises(ExpressionOutOfRange):
        found.is_true(tuple("\U000e0001".encode() if one.name == "ci" else None for one in T.columns))
    with pytest.raises(InvariantBroken):  # no weights were requested: such a filter only checks expressions
        compiled("ci = 'a'", T).is_true(tuple(b"a" if one.name == "ci" else None for one in T.columns))


def test_an_unknown_column_is_distinguished() -> None:
    with pytest.raises(UnknownColumn):
        compiled("nobody = 1", T)


def test_a_result_that_exceeds_the_servers_memory_stops() -> None:
    found = compiled("u - 1 > 0", T)
    row = tuple(b"0" if one.name == "u" else None for one in T.columns)
    with pytest.raises(ExpressionOutOfRange, match="u - 1 > 0"):
        found.is_true(row)


def test_null_is_not_true() -> None:
    assert compiled("a = 1", T).is_true(NULLS) is False
