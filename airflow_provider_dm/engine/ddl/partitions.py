"""Whether the partitions of two tables hold the same rows, as far as their clauses show.

A target table that a user has created may have partitions of the same names with other rows. Bounds that a server
would compute are not compared, nor those of partitions that have changed one by one since the clause was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard

from airflow_provider_dm.engine.ddl.lexer import Token, TokenKind, all_tokens, tokens
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import (
    AlterTable,
    Code,
    CreateTable,
    DropPartitions,
    Repartition,
    Spec,
    TruncatePartitions,
)

CHANGED: Final = "PARTITION /* single partitions have changed since"
_INSIGNIFICANT: Final = frozenset({TokenKind.SPACE, TokenKind.COMMENT, TokenKind.OPENING, TokenKind.CLOSING})
_NAMED: Final = frozenset({TokenKind.WORD, TokenKind.NAME})
_ENDS: Final = frozenset({"SUBPARTITION", "PARTITIONS"})
"""Words after what chooses a partition: subpartitions do not matter, the number of partitions is read."""
_SHOWN_AS: Final = {"CEIL": "CEILING", "DAY": "DAYOFMONTH", "MOD": "", "_UTF8MB4": ""}
"""Words that a server shows as others: MOD as `%`, and TiDB shows the charset of a text."""
_CONSTANTS: Final = frozenset({"MAXVALUE", "NULL", "DEFAULT"})


def with_changed_partitions(code: Code, spec: Spec) -> Code:
    """Mark a complete partition clause as outdated, as a later clause has changed single partitions, with their names.

    >>> with_changed_partitions("PARTITION BY KEY ()", DropPartitions(("p0", "p1")))
    'PARTITION /* single partitions have changed since p0 p1 */ BY KEY ()'
    """
    names: Sequence[str] = spec.names if isinstance(spec, DropPartitions) else ()
    if isinstance(spec, Repartition):
        names = [token.name for token in tokens(spec.what, 0) if token.name is not None]
    _, _, rest = code.partition(CHANGED)
    rest = rest or f" */{code[len('PARTITION') :]}"
    return CHANGED + "".join(f" {name}" for name in names if "*/" not in name) + rest


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
    changed = source.partition(CHANGED)[2].partition("*/")[0].lower().split()
    if chooser != other_chooser or (CHANGED not in source and bounds.keys() != other_bounds.keys()):
        return True
    pairs = ((bounds[name], other_bounds[name]) for name in (bounds.keys() & other_bounds.keys()).difference(changed))
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _read(clause: Code) -> tuple[tuple[str, ...], Mapping[str, str | None]]:
    """Return the words that choose a partition, and each partition with its bound; None for one that is computed."""
    text = [token for token in all_tokens(clause, 0) if token.kind not in _INSIGNIFICANT]
    heads = [at for at, token in enumerate(text) if token.text == "PARTITION" and text[at - 1].text in ("(", ",")]
    end = next((at for at, token in enumerate(text) if token.text in _ENDS), len(text))
    words = [str(one.name).upper() for one in text[2 : min([end, *heads])] if one.kind in _NAMED]
    chooser = tuple(word for one in words if (word := _SHOWN_AS.get(one, one)))
    if heads:
        return chooser, {str(text[at + 1].name).lower(): _bound(text[at + 2 :]) for at in heads}
    return chooser, {f"p{number}": "" for number in range(int(text[end + 1].raw) if end + 1 < len(text) else 1)}


def _bound(text: Sequence[Token]) -> str | None:
    """Return the values of a partition, of which `text` begins after its name."""
    if [one.text for one in text[:1]] != ["VALUES"]:
        return ""
    values, depth = list[Token](), 0
    for token in text[2 + (text[1].text == "LESS") :]:
        depth += (token.text == "(") - (token.text == ")")
        if token.text not in ("(", ")"):
            values.append(token)
        if depth == 0:
            break
    if any(_is_computed(one) for one in values):
        return None
    found = [one.raw.upper() if one.kind is TokenKind.WORD else one.raw for one in values]
    return " ".join(sorted(found) if text[1].text == "IN" else found)


def _is_computed(token: Token) -> bool:
    if token.kind is TokenKind.SIGN:
        return token.text not in (",", "-")
    return token.kind in _NAMED and token.text not in _CONSTANTS
