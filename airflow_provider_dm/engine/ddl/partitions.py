"""Whether the partitions of two tables hold the same rows, as far as their clauses show.

A target table that a user has created may have partitions of the same names with other rows. Bounds that a server
would compute are not compared, nor those of partitions that have changed one by one since the clause was written. HASH
and KEY whose number has changed since count as different.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard

from airflow_provider_dm.engine.ddl.lexer import Token, TokenKind, all_tokens, string_value, tokens
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import (
    AlterTable,
    Code,
    CreateTable,
    DropPartitions,
    PartitionToTable,
    Repartition,
    Spec,
    TableToPartition,
    TruncatePartitions,
)

CHANGED: Final = "PARTITION /* single partitions have changed since"
_INSIGNIFICANT: Final = frozenset({TokenKind.SPACE, TokenKind.COMMENT, TokenKind.OPENING, TokenKind.CLOSING})
_WORDS: Final = frozenset({TokenKind.WORD, TokenKind.NAME, TokenKind.STRING})
_ENDS: Final = frozenset({"SUBPARTITION", "PARTITIONS"})
"""Words after what chooses a partition: subpartitions do not matter, the number of partitions is read."""
_SHOWN_AS: Final = {"CEIL": "CEILING", "DAY": "DAYOFMONTH", "MOD": "%", "_UTF8MB4": ""}
"""Words that a server shows as others; TiDB shows the charset of a text."""
_USUAL: Final = re.compile(r"ALGORITHM\s*=\s*2\b", re.IGNORECASE)
"""What no server shows."""
_CONSTANTS: Final = frozenset({"MAXVALUE", "NULL", "DEFAULT"})
_DAY: Final = re.compile(r"(\d{4})-?(\d{1,2})-?(\d{1,2})")
"""A date, which TiDB shows in its usual form."""


def with_changed_partitions(code: Code, spec: Spec) -> Code:
    """Mark a complete partition clause as outdated, as a later clause has changed single partitions, with their names
    (and other words of that clause).

    >>> with_changed_partitions("PARTITION BY KEY ()", DropPartitions(("p0", "p1")))
    'PARTITION /* single partitions have changed since p0 p1 */ BY KEY ()'
    >>> with_changed_partitions(_, Repartition("COALESCE PARTITION 2"))
    'PARTITION /* single partitions have changed since p0 p1 coalesce partition */ BY KEY ()'
    """
    known, _, rest = code.removeprefix(CHANGED).partition(" */")
    if not code.startswith(CHANGED):
        known, rest = "", code[len("PARTITION") :]
    names = dict.fromkeys([*known.split(), *(_plain(name) for name in _changed(spec))])
    return f"{CHANGED}{''.join(f' {name}' for name in names)} */{rest}"


def _changed(spec: Spec) -> Sequence[str]:
    match spec:
        case DropPartitions(names):
            return names
        case PartitionToTable(name, _):
            return [name]
        case TableToPartition(_, what) | Repartition(what):
            return [_name(token) for token in tokens(what, 0) if token.kind in _WORDS]
    return []


def _name(token: Token) -> str:
    """Return a name, which may be quoted as a text (ANSI_QUOTES), or the value of a text."""
    return string_value(token.raw, 0) if token.kind is TokenKind.STRING else str(token.name)


def _plain(name: str) -> str:
    return re.sub(r"\s|\*/", "_", name.lower())


def partitions_shown(create_table: str | None) -> Code | None:
    """Return the partition clause of a SHOW CREATE TABLE; None without one."""
    statement = None if create_table is None else parse(create_table, 0, "any")
    return statement.definition.partitioning if isinstance(statement, CreateTable) else None


def removes_partitions(statement: object) -> TypeGuard[AlterTable]:
    """Return True if the rows of some partitions are removed.

    >>> [removes_partitions(parse(f"ALTER TABLE t TRUNCATE PARTITION {which}", 0, "s")) for which in ("p, q", "ALL")]
    [True, False]
    """
    return isinstance(statement, AlterTable) and any(
        isinstance(spec, DropPartitions | TruncatePartitions) and spec.names for spec in statement.specs
    )


def differ(source: Code | None, target: Code | None) -> bool:
    """Return True if a partition of the target does not have the rows that the source's partition of that name has.

    >>> one = "PARTITION BY LIST (`A`) (PARTITION p VALUES IN (1))"
    >>> two = "PARTITION BY LIST (a) (PARTITION P VALUES IN (2,1) ENGINE=InnoDB)"
    >>> differ(two, two), differ(two, one), differ(with_changed_partitions(two, DropPartitions(("p",))), one)
    (False, True, False)
    >>> differ("PARTITION BY HASH (MOD(DAY(d), 4))", "PARTITION BY HASH ((dayofmonth(`d`) % 4))")
    False
    >>> differ("PARTITION BY LINEAR HASH (a) PARTITIONS 4", "PARTITION BY HASH (`a`) PARTITIONS 4")  # made by TiDB
    True
    """
    if source is None or target is None:
        return False
    (chooser, bounds), (other_chooser, other_bounds) = _read(source), _read(target)
    changed = source.removeprefix(CHANGED).partition(" */")[0].split() if source.startswith(CHANGED) else []
    if chooser != other_chooser or (bounds.keys() ^ other_bounds.keys()).difference(changed):
        return True
    if changed and "" in bounds.values():  # of HASH and KEY all partitions depend on their number
        return True
    pairs = ((bounds[name], other_bounds[name]) for name in (bounds.keys() & other_bounds.keys()).difference(changed))
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _read(clause: Code) -> tuple[tuple[list[str], list[str]], Mapping[str, Sequence[str] | None]]:
    """Return what chooses a partition, its words and the rest, and each partition with its bound: "" for HASH and KEY,
    None for one that is computed."""
    text = [token for token in all_tokens(_USUAL.sub("", clause), 0) if token.kind not in _INSIGNIFICANT]
    heads = [at for at, token in enumerate(text) if token.text == "PARTITION" and text[at - 1].text in ("(", ",")]
    end = next((at for at, token in enumerate(text) if token.text in _ENDS), len(text))
    words, others = list[str](), list[str]()
    for token in text[2 : min([end, *heads])]:
        word = _name(token).upper() if token.kind in _WORDS else token.text
        word = _SHOWN_AS.get(word, word)
        if word and word not in "(),0":  # YEARWEEK(d) is shown as yearweek(`d`,0)
            (words if token.kind in _WORDS and word != "%" else others).append(word)
    chooser = words, sorted(others)  # MOD(a, 4) is a % 4
    if heads:
        return chooser, {_plain(_name(text[at + 1])): _bound(text[at + 2 :]) for at in heads}
    return chooser, {f"p{number}": "" for number in range(int(text[end + 1].raw) if end + 1 < len(text) else 1)}


def _bound(text: Sequence[Token]) -> Sequence[str] | None:
    """Return the values of a partition, of which `text` begins after its name."""
    if [one.text for one in text[:1]] != ["VALUES"]:
        return ""
    values, depth = [""], 0
    for token in text[2 + (text[1].text == "LESS") :]:
        depth += (token.text == "(") - (token.text == ")")
        if _is_computed(token):
            return None
        if token.text == "," and depth == 1:
            values.append("")
        elif token.text not in "()" or depth > 1:
            values[-1] += _value(token)
        if depth == 0:
            break
    return sorted(values) if text[1].text == "IN" else values


def _value(token: Token) -> str:
    """Return a value's text in one form."""
    if token.kind is not TokenKind.STRING:
        return token.raw.upper()
    value = string_value(token.raw, 0)
    day = _DAY.fullmatch(value)
    return repr(value) if day is None else f"{day[1]}-{int(day[2]):02}-{int(day[3]):02}"


def _is_computed(token: Token) -> bool:
    if token.kind is TokenKind.SIGN:
        return token.text not in ("(", ")", ",", "-")
    return token.kind in (TokenKind.WORD, TokenKind.NAME) and token.text not in _CONSTANTS
