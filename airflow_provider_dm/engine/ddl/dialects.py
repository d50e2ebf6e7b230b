"""What one flavour's CREATE TABLE says in another way than the other's, column by column and key by key.

Within a flavour nothing changes. Between them a word becomes the other's word for the same, or is left out with a note
where rows do not need it; what decides over rows and has no like over there stops (UnknownDdl).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.ddl.create_words import KEYS, UnknownDdl
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.schema.strings import MYSQL_ONLY_CHARSETS

Clause = list[str]


@dataclass(frozen=True)
class Adapted:
    """Columns and keys for the target, and what a person may want to know of them."""

    clauses: tuple[Clause, ...]
    notes: tuple[str, ...]


def adapt(clauses: Sequence[Clause], source: Flavour, target: Flavour) -> Adapted:
    """Return the clauses as the target's flavour writes them. Raises UnknownDdl."""
    if (source is Flavour.MARIADB) is (target is Flavour.MARIADB):
        return Adapted(tuple(clauses), ())
    rules = _TO_MARIADB if target is Flavour.MARIADB else _TO_MYSQL
    notes: list[str] = []
    adapted = []
    for clause in clauses:
        for rule in rules:
            clause, note = rule(clause)
            notes += [note] if note else []
        adapted.append(clause)
    return Adapted(tuple(adapted), tuple(notes))


Rule = Callable[[Clause], tuple[Clause, str]]
"""A clause -> the clause for the other flavour, and a note or an empty text."""


def _same(clause: Clause) -> tuple[Clause, str]:
    return clause, ""


def _upper(clause: Clause) -> list[str]:
    return [word.upper() for word in clause]


def _is_key(clause: Clause) -> bool:
    return clause[0].upper() in KEYS


def _refuse(types: str, what: str) -> Rule:
    """Return a rule that refuses columns of these types."""
    refused = frozenset(types.split())

    def rule(clause: Clause) -> tuple[Clause, str]:
        if not _is_key(clause) and len(clause) > 1 and clause[1].upper() in refused:
            raise UnknownDdl(f"{what}: {clause[0]} {clause[1]}")
        return _same(clause)

    return rule


def _rename(name: str, becomes: Sequence[str], note: str = "") -> Rule:
    """Return a rule that renames a column type."""

    def rule(clause: Clause) -> tuple[Clause, str]:
        if _is_key(clause) or len(clause) < 2 or clause[1].upper() != name:
            return _same(clause)
        return [clause[0], *becomes, *clause[2:]], note and f"{clause[0]} {note}"

    return rule


def _drop(word: str, arguments: int, note: str) -> Rule:
    """Return a rule that drops a word and its `arguments` words behind it."""

    def rule(clause: Clause) -> tuple[Clause, str]:
        upper = _upper(clause)
        if word not in upper:
            return _same(clause)
        at = upper.index(word)
        return clause[:at] + clause[at + 1 + arguments :], f"{clause[0]} {note}"

    return rule


def _drop_json_check(clause: Clause) -> tuple[Clause, str]:
    kept = [word for word in clause if not word.upper().startswith("CHECK")]
    return (kept, f"{clause[0]} is text without a check") if len(kept) < len(clause) else _same(clause)


def _refuse_computed(clause: Clause) -> tuple[Clause, str]:
    if "GENERATED" in _upper(clause):
        raise UnknownDdl(
            f"the generated column {clause[0]}, whose expression the other flavour may read in another way"
        )
    if _is_key(clause) and any(word.startswith("(") and len(word) > 1 for word in clause):
        raise UnknownDdl("a key over an expression")
    return _same(clause)


def _refuse_hash(clause: Clause) -> tuple[Clause, str]:
    if _is_key(clause) and "HASH" in _upper(clause):
        raise UnknownDdl(f"the unique key {' '.join(clause)}, which is longer than an index of MySQL")
    return _same(clause)


def _refuse_charset(clause: Clause) -> tuple[Clause, str]:
    for word in MYSQL_ONLY_CHARSETS & set(clause):
        raise UnknownDdl(f"the character set {word}")
    return _same(clause)


def _visible_keys(clause: Clause) -> tuple[Clause, str]:
    return _drop("INVISIBLE", 0, "is visible")(clause) if _is_key(clause) else _same(clause)


_JSON_AS_TEXT: Final = ("longtext", "CHARACTER", "SET", "utf8mb4", "COLLATE", "utf8mb4_bin")
_TO_MARIADB: Final[tuple[Rule, ...]] = (
    _refuse_computed,
    _refuse_charset,
    _refuse("VECTOR", "a type that only some versions have"),
    _rename("JSON", _JSON_AS_TEXT, "json becomes longtext"),
    _rename("GEOMCOLLECTION", ("geometrycollection",)),
    _drop("SRID", 1, "takes any SRID"),
    _visible_keys,
)
_TO_MYSQL: Final[tuple[Rule, ...]] = (
    _refuse_computed,
    _refuse_hash,
    _refuse("VECTOR", "a type that only some versions have"),
    _refuse("UUID INET4 INET6", "a type that only MariaDB has"),
    _drop_json_check,
    _drop("COMPRESSED", 0, "is not compressed"),
)
