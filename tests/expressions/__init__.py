"""Random expressions over random rows: what the server answers, and what `rules.expressions.compiled` does.

One table has a column of every type that is known there, with values that lie close together, so that comparisons go
either way. Expressions are made by type, so that nearly all of them are evaluated; one that is refused is made again.
A decision is one expression for one row: true, false or NULL. Where a result is out of range there is none.

    python -m tests.expressions --decisions 1000000        both flavours, seeds printed
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pymysql

from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.errors import ExpressionNotSupported, OutOfRange
from airflow_provider_dm.engine.rules.expressions.compiled import compiled
from airflow_provider_dm.engine.rules.expressions.expression_session import ExpressionSession
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.codec import Row, row_reader
from airflow_provider_dm.engine.schema.collation_weights import is_compared_by_weights, read_weights
from airflow_provider_dm.engine.schema.model import Table
from testbed import Server

COLUMNS: Final = """id int PRIMARY KEY, w int unsigned, a int, s tinyint, u bigint unsigned, big bigint,
    d decimal(10,2), e decimal(20,6), f float, g double, v varchar(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    c char(6) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, l varchar(12) CHARACTER SET latin1 COLLATE latin1_swedish_ci,
    lb varchar(12) CHARACTER SET latin1 COLLATE latin1_bin, x varchar(12) CHARACTER SET ascii COLLATE ascii_general_ci,
    ci varchar(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, b varbinary(8), bn binary(4), dt datetime(3),
    dy date, t time(2), y year, k enum('new','Paid','','a b') CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci,
    uni varchar(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci,
    u52 char(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci,
    nopad varchar(12) CHARACTER SET utf8mb4 COLLATE {nopad},
    g3 varchar(12) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci,
    lg varchar(12) CHARACTER SET latin1 COLLATE latin1_general_ci,
    l2 varchar(12) CHARACTER SET latin1 COLLATE latin1_german2_ci, ts timestamp(3) NULL"""
NOPAD: Final = {"mysql": "utf8mb4_0900_ai_ci", "mariadb": "utf8mb4_unicode_nopad_ci"}
WHOLES: Final = ("a", "s", "u", "big", "id", "w")
EXACTS: Final = ("d", "e")
DOUBLES: Final = ("f", "g")
BY_WEIGHTS: Final = ("ci", "uni", "u52", "nopad", "g3", "lg", "l2", "v COLLATE utf8mb4_unicode_ci")
TEXTS: Final = ("v", "c", "l", "lb", "x", "ci COLLATE utf8mb4_bin", *BY_WEIGHTS, *BY_WEIGHTS)
WORDS: Final = ("", " ", "a", "A", "b", "ab", "aB ", "a\t", "é", "É", "ä", "Ä", "ß", "s", "ü", "Y", "y", "ý", "%", "_",
                "a%", "\\", "a_b", "Z", "[", "æ", "~", "0", "ÿ", "Þ", "þ", "a b")  # fmt: skip
MORE_WORDS: Final = (*WORDS, "ss", "SS", "ae", "oe", "œ", "ﬁ", "fi", "a\u0301", "\u200ba", "\u0301", "ı", "İ",
                     "Ω", "ω", "か", "が", "ガ", "ｶ", "中", "𠮷", "😀", "😁", "\U00020000", "각", "й")  # fmt: skip
MOMENTS: Final = ("2020-01-01", "2020-01-01 00:00:00", "2020-01-01 00:00:00.5", "2020-02-29 23:59:59.999", "1999-12-31")
STAMPS: Final = ("2024-03-31 00:59:59.5", "2024-03-31 01:00:00", "2024-10-27 00:30:00", "2024-10-27 01:30:00.001",
                 "1970-01-01 00:00:01", "2038-01-19 03:14:07", "2020-02-29 23:59:59.999", "2020-01-01")  # fmt: skip
ZONES: Final = ("+00:00", "+05:30", "-09:30", "+13:00", "+01:00")
DAYS: Final = ("2020-01-01", "2020-02-29", "1999-12-31", "9999-12-31", "1000-01-01")
ZEROS: Final = ("0000-00-00", "2020-02-00")
CLOCKS: Final = ("00:00:00", "-00:00:01", "12:34:56.7", "838:59:59", "-838:59:59", "12:34:56")
OUT_OF_RANGE: Final = 1690
"""The error of a server for which a result is too large."""


@dataclass(frozen=True)
class Disagreement:
    """A decision that the server made in another way."""

    expression: str
    row: Row
    server: object
    ours: object


def prepare(server: Server, schema: str, dice: Random, rows: int) -> None:
    """Make the table anew, with random rows."""
    with server.connect(database=schema, charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")  # takes dates with zeros in them
        cursor.execute("DROP TABLE IF EXISTS t")
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"CREATE TABLE t ({COLUMNS.format(nopad=NOPAD[server.flavour])})")
        values = [_row(dice, number) for number in range(rows)]
        cursor.executemany(f"INSERT IGNORE INTO t VALUES ({', '.join(['%s'] * len(values[0]))})", values)
        connection.commit()


def _row(dice: Random, number: int) -> list[object]:
    small = (-3, -2, -1, 0, 1, 2, 3, 5, 7)
    latin = [word for word in WORDS if all(ord(letter) < 256 for letter in word)]
    ascii_words = [word for word in WORDS if word.isascii()]
    row: list[object] = [
        dice.choice((0, 1, 2, 7, 2**32 - 1)),
        dice.choice((*small, 100, -(2**31), 2**31 - 1)),
        dice.choice(small),
        dice.choice((0, 1, 2, 3, 7, 2**63, 2**64 - 1)),
        dice.choice((*small, 2**62, -(2**63), 2**53 + 1)),
        dice.choice(("-1.50", "0.00", "0.01", "1.00", "2.00", "3.14", "99999999.99")),
        dice.choice(("-1.500000", "0", "0.010000", "1.000001", "2", "3.140000", "12345678901234.123456")),
        dice.choice(("0.1", "1.5", "-2", "3.14", "1e10", "0", "1")),
        dice.choice(("0.1", "1.5", "-2", "3.14", "1e300", "0", "2", "9007199254740993")),
        dice.choice(WORDS),
        dice.choice(WORDS),
        dice.choice(latin),
        dice.choice(latin),
        dice.choice(ascii_words),
        dice.choice(MORE_WORDS),
        dice.choice((b"", b"a", b"A", b"\0", b"a\0", b"\xff", b" ab", b"a ")),
        dice.choice((b"", b"a", b"A", b"\0b", b"\xff", b" ab")),
        dice.choice((*MOMENTS, *ZEROS)),
        dice.choice((*DAYS, *ZEROS)),
        dice.choice(CLOCKS),
        dice.choice((1901, 1999, 2020, 2155, 0)),
        dice.choice(("new", "Paid", "", "a b", "nobody")),
        *(dice.choice(MORE_WORDS) for _ in range(3)),
        dice.choice([word for word in MORE_WORDS if all(ord(letter) < 0x10000 for letter in word)]),
        dice.choice(latin),
        dice.choice(latin),
        dice.choice((*STAMPS, ZEROS[0])),
    ]
    return [number, *(None if dice.random() < 0.12 else value for value in row)]


class Maker:
    """Random expressions by type, as text."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice

    def truth(self, depth: int = 3) -> str:
        """An expression that is true, false or NULL."""
        dice = self.dice
        if depth == 0 or dice.random() < 0.35:
            return self._test()
        kind = dice.choice(("AND", "OR", "XOR", "NOT", "IS", "parentheses", "&&", "number"))
        match kind:
            case "NOT":
                return f"NOT {self.truth(depth - 1)}"
            case "IS":
                what = dice.choice(("NULL", "NOT NULL", "TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN"))
                return f"({self.truth(depth - 1)}) IS {what}"
            case "parentheses":
                return f"({self.truth(depth - 1)})"
            case "number":
                return f"({self._number(2)})"
            case _:
                return f"{self.truth(depth - 1)} {kind} {self.truth(depth - 1)}"

    def _test(self) -> str:
        dice = self.dice
        left, right, ordered = self._pair()
        kind = dice.random()
        if kind < 0.6 or not ordered:
            signs = ("=", "<>", "!=", "<=>", *(("<", "<=", ">", ">=") if ordered else ()))
            pair = (left, right) if dice.random() < 0.8 else (right, left)
            return f"{pair[0]} {dice.choice(signs)} {pair[1]}"
        if kind < 0.7:
            return f"{left} {dice.choice(('IS NULL', 'IS NOT NULL'))}"
        return f"{left} {dice.choice(('', 'NOT '))}BETWEEN {right} AND {right}"

    def _pair(self) -> tuple[str, str, bool]:
        kinds = (self._numbers, self._numbers, self._doubles, self._texts, self._binaries, self._times, self._members)
        return self.dice.choice(kinds)()

    def _numbers(self) -> tuple[str, str, bool]:
        dice = self.dice
        if dice.random() < 0.25:
            items = ", ".join(dice.choice(("-1", "0", "1", "2", "2.00", "3.14", "NULL", "18446744073709551615"))
                              for _ in range(dice.randint(1, 4)))  # fmt: skip
            name = dice.choice((*WHOLES, *EXACTS, self._number(1)))
            return f"({name} {dice.choice(('', 'NOT '))}IN ({items}))", dice.choice(("0", "1")), True
        return self._number(2), self._number(1), True

    def _number(self, depth: int) -> str:
        dice = self.dice
        if depth > 0 and dice.random() < 0.35:
            return self._whole(depth) if dice.random() < 0.5 else self._chosen(lambda: self._number(depth - 1), depth)
        if depth == 0 or dice.random() < 0.4:
            constants = ("0", "1", "2", "-1", "3", "7", "1.5", "0.01", "-2.00", "3.14", "100", "TRUE", "00012")
            return dice.choice((*WHOLES, *EXACTS, *constants))
        sign = dice.choice(("+", "-", "*", "%", "MOD", "DIV", "neg", "parentheses"))
        if sign == "neg":
            return f"-{self._number(depth - 1)}"
        if sign == "parentheses":
            return f"({self._number(depth - 1)})"
        if sign == "DIV":
            return f"{dice.choice((*WHOLES, self._whole(1)))} DIV {dice.choice((*WHOLES, '2', '-3', '0'))}"
        return f"{self._number(depth - 1)} {sign} {self._number(depth - 1)}"

    def _chosen(self, value: Callable[[], str], depth: int = 1) -> str:
        """One of some values of a kind, by a condition."""
        dice = self.dice
        match dice.choice(("CASE", "simple", "IF", "IFNULL", "COALESCE", "NULLIF")):
            case "CASE":
                whens = " ".join(f"WHEN {self.truth(depth - 1)} THEN {value()}" for _ in range(dice.randint(1, 2)))
                return f"CASE {whens} {dice.choice(('', 'ELSE NULL', f'ELSE {value()}'))} END"
            case "simple":
                left, right, _ = self._pair()
                whens = f"WHEN {right} THEN {value()} {dice.choice(('', f'WHEN NULL THEN {value()}'))}"
                return f"CASE {left} {whens} {dice.choice(('', f'ELSE {value()}'))} END"
            case "IF":
                return f"IF({self.truth(depth - 1)}, {value()}, {dice.choice(('NULL', value(), value()))})"
            case "COALESCE":
                return f"COALESCE({', '.join(value() for _ in range(dice.randint(1, 3)))})"
            case name:
                return f"{name}({value()}, {value()})"

    def _whole(self, depth: int) -> str:
        """A function whose result is a number."""
        dice = self.dice
        number = self._number(depth - 1)
        match dice.choice(("one", "MOD", "most", "FLOOR", "length", "date", "time")):
            case "one":
                return f"{dice.choice(('ABS', 'SIGN'))}({number})"
            case "MOD":
                return f"MOD({dice.choice(WHOLES)}, {dice.choice((*WHOLES, '3', '-2', '0'))})"
            case "most":
                values = [self._number(depth - 1) for _ in range(dice.randint(2, 3))]
                return f"{dice.choice(('GREATEST', 'LEAST'))}({', '.join(values)})"
            case "FLOOR":
                return f"{dice.choice(('FLOOR', 'CEIL', 'CEILING'))}({dice.choice((*WHOLES, number))})"
            case "length":
                name = dice.choice(("LENGTH", "OCTET_LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH"))
                return f"{name}({self._cut(dice.choice((*TEXTS, 'b', 'bn')))})"
            case "date":
                name = dice.choice(("YEAR", "MONTH", "DAY", "DAYOFMONTH"))
                return f"{name}({self._moment()})"
            case _:
                return f"{dice.choice(('HOUR', 'MINUTE', 'SECOND'))}({dice.choice(('t', self._moment()))})"

    def _moment(self) -> str:
        names = ("dt", "dy", "ts", "DATE(dt)", "DATE(dy)", "DATE(ts)")
        name = self.dice.choice(names)
        return name if self.dice.random() < 0.6 else self._chosen(lambda: self.dice.choice(names))

    def _cut(self, name: str) -> str:
        """A column of text or bytes, or what functions make of it."""
        dice = self.dice
        if dice.random() < 0.4:
            return name
        bare = name in ("b", "bn")
        inner = self._cut(name)

        def alike() -> str:
            other = dice.choice(("b", "bn", "x'61'", "'a'")) if bare else quoted(dice.choice(WORDS))
            return dice.choice((inner, name, other))

        count = dice.choice(("0", "1", "2", "3", "-1", "-2", "9", *WHOLES))
        match dice.choice(("LEFT", "SUBSTRING", "SUBSTR", "MID", "TRIM", "CONCAT", "chosen")):
            case "LEFT":
                return f"{dice.choice(('LEFT', 'RIGHT'))}({inner}, {count})"
            case "TRIM":
                return f"{dice.choice(('TRIM', 'LTRIM', 'RTRIM'))}({inner})"
            case "CONCAT":
                return f"CONCAT({', '.join((inner, *(alike() for _ in range(dice.randint(0, 2)))))})"
            case "chosen":
                return self._chosen(alike)
            case name:
                length = f", {dice.choice(('0', '1', '2', '-1', *WHOLES))}"
                return f"{name}({inner}, {count}{length if name == 'MID' else dice.choice(('', length))})"

    def _doubles(self) -> tuple[str, str, bool]:
        dice = self.dice
        if dice.random() < 0.3:
            values = lambda: dice.choice((*DOUBLES, "0.1e0", "a", "d", "1.5", "g * 2"))  # noqa: E731
            call = dice.choice((f"ABS({values()})", f"GREATEST({values()}, f)", f"LEAST(g, {values()})", ""))
            return call or self._chosen(values), values(), True
        left = dice.choice((*DOUBLES, "f + g", "g * 2", "f - 0.1e0", "g / f", "f * f", "g % 3", "-f", "g + d", "f * a"))
        right = dice.choice((*DOUBLES, "0e0", "1.5e0", "0.1e0", "3.14e0", "1.5e0 + 1.5e0", "1e300"))
        if dice.random() < 0.3:
            return left, dice.choice(("0.1", "1.5", "2", "3.14", "a", "d", "big")), False
        return left, right, True

    def _texts(self) -> tuple[str, str, bool]:
        dice = self.dice
        name = dice.choice(TEXTS)
        words = MORE_WORDS if name in BY_WEIGHTS else WORDS
        if dice.random() < 0.4:
            name = self._cut(name)
        kind = dice.random()
        if kind < 0.3:
            pattern = "".join(
                dice.choice(("a", "A", "b", "%", "_", "é", "ä", "\\%", "\\_", "ÿ", " ", dice.choice(words)))
                for _ in range(3)
            )
            return f"({name} {dice.choice(('', 'NOT '))}LIKE {quoted(pattern)})", dice.choice(("0", "1")), True
        if kind < 0.5:
            items = ", ".join(quoted(dice.choice(words)) for _ in range(dice.randint(1, 4)))
            return f"({name} {dice.choice(('', 'NOT '))}IN ({items}))", dice.choice(("0", "1")), True
        return name, name if kind < 0.55 else quoted(dice.choice(words)), True

    def _binaries(self) -> tuple[str, str, bool]:
        dice = self.dice
        constants = ("x''", "x'61'", "0x6100", "'a'", "'ab'", "X'FF'", "x'61000000'")
        name = self._cut(dice.choice(("b", "bn")))
        return self._among(name, constants) or (name, dice.choice(("b", "bn", *constants)), True)

    def _among(self, name: str, constants: Sequence[str]) -> tuple[str, str, bool] | None:
        dice = self.dice
        if dice.random() < 0.7:
            return None
        items = ", ".join(dice.choice((*constants, "NULL")) for _ in range(dice.randint(1, 4)))
        return f"({name} {dice.choice(('', 'NOT '))}IN ({items}))", dice.choice(("0", "1")), True

    def _times(self) -> tuple[str, str, bool]:
        dice = self.dice
        kind = dice.choice(("dt", "dy", "t", "y", "both", "ts"))
        if kind == "both":
            left, right = dice.sample(("dt", "dy", "ts"), 2)
            return left, right, True
        constants = {"dt": MOMENTS, "ts": (*STAMPS, *MOMENTS), "dy": DAYS, "t": CLOCKS, "y": ("1999", "2020", "1901")}[
            kind
        ]
        if kind != "y":
            constants = tuple(map(quoted, constants))
        name = kind
        if dice.random() < 0.4:
            same = {"dt": self._moment, "dy": lambda: dice.choice(("dy", "DATE(dt)"))}.get(kind, lambda: kind)
            name = same() if dice.random() < 0.3 else self._chosen(same)
        if found := self._among(name, constants):
            return found
        constant = dice.choice(constants)
        return name, kind if dice.random() < 0.1 else constant, True

    def _members(self) -> tuple[str, str, bool]:
        dice = self.dice
        words = ("new", "NEW", "paid", "Paid ", "", "a b", "a", "other")
        if dice.random() < 0.3:
            items = ", ".join(quoted(dice.choice(words)) for _ in range(dice.randint(1, 3)))
            return f"(k {dice.choice(('', 'NOT '))}IN ({items}))", dice.choice(("0", "1")), True
        return "k", quoted(dice.choice(words)), False


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''").replace("\\\\%", "\\%").replace("\\\\_", "\\_") + "'"


@dataclass
class Campaign:
    """Expressions over the rows of one server."""

    server: Server
    schema: str
    table: Table
    rows: list[Row]
    session: ExpressionSession
    refused: int = 0
    out_of_range: int = 0
    """Expressions at which the server stops, for a row at least."""
    stopped: int = 0
    """Decisions at which we stop, as the server should: at the ends of BIGINT it sometimes has a value."""

    @classmethod
    def on(cls, server: Server, schema: str, dice: Random, rows: int) -> Campaign:
        zone = dice.choice((*ZONES, server.zone) if server.zone else ZONES)
        prepare(server, schema, dice, rows)
        endpoint = Endpoint("campaign", server.host, server.port, server.user, Secret(""), None, ())
        name = TableName(schema, "t")
        with connected(endpoint) as connection:
            table = read_tables(connection, [name])[name]
            connection.decoders = {}
            select, read = row_reader(table)
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT {select} FROM {name.quoted()} ORDER BY id")
                found = [read(row) for row in cursor.fetchall()]
        with connected(endpoint) as connection:
            collations = {one.collation or "" for one in table.columns if is_compared_by_weights(one.collation or "")}
            session = ExpressionSession(zone, read_weights(connection, f"{server.name} {server.port}", collations))
        return cls(server, schema, table, found, session)

    def expressions(self, dice: Random, count: int) -> list[str]:
        """Random ones that are evaluated here."""
        maker = Maker(dice)
        found: list[str] = []
        while len(found) < count:
            text = maker.truth()
            try:
                compiled(text, self.table, self.session)
            except ExpressionNotSupported:
                self.refused += 1
                continue
            found.append(text)
        return found

    def disagreements(self, expressions: Sequence[str]) -> list[Disagreement]:
        """The decisions that differ. One SELECT asks for all; where the server stops there are no answers."""
        try:
            answers = self._asked(expressions)
        except pymysql.err.MySQLError as error:
            if error.args[0] != OUT_OF_RANGE:
                raise
            if len(expressions) == 1:
                self.out_of_range += 1
                return []
            half = len(expressions) // 2
            return self.disagreements(expressions[:half]) + self.disagreements(expressions[half:])
        found = []
        for number, text in enumerate(expressions):
            for row, answer in zip(self.rows, answers, strict=True):
                ours = self._decided(text, row)
                server = None if answer[2 * number] else bool(answer[2 * number + 1])
                if ours == "out of range":
                    self.stopped += 1
                elif ours is not server:
                    found.append(Disagreement(text, row, server, ours))
        return found

    def _decided(self, text: str, row: Row) -> object:
        try:
            return compiled(text, self.table, self.session).truth(row)
        except OutOfRange:
            return "out of range"

    def _asked(self, expressions: Sequence[str]) -> Sequence[Sequence[Any]]:
        columns = ", ".join(f"({one}) IS NULL, ({one}) IS TRUE" for one in expressions)
        with self.server.connect(database=self.schema, charset="utf8mb4") as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
            cursor.execute("SET time_zone = %s", ("SYSTEM" if "/" in self.session.zone else self.session.zone,))
            cursor.execute(f"SELECT {columns} FROM t ORDER BY id")
            answers: Sequence[Sequence[Any]] = cursor.fetchall()
        return answers
