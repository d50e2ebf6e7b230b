r"""From a source's SHOW CREATE TABLE to the statement that creates the target's table.

Upstream text is never sent as it is. It is cut into words (`create_words`), each of which has to be known, and the
statement is written anew from them: a comment, a function default, a partition clause, a CHECK, a foreign key or an
engine's odd option stops with CannotCreateTarget, and a person creates the table. What is changed on the way, and only
that:
- the table's name;
- AUTO_INCREMENT= and the statistics options are dropped (in a merge they mean nothing, the server counts on by itself);
- what the target's family writes in another way or does not have (`dialects`), which is reported;
- collations that the target's family does not have, by the two tables below: the nearest in what it takes for equal and
  in how it treats trailing spaces. Each is reported, as ORDER BY and `=` may answer differently for rare characters.
- a character set without its collation gets it: the default differs between servers, and decides about equality."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from airflow_provider_dm.engine.ddl.create_words import UnknownDdl, clauses_of, names_charset, options_of, words_of
from airflow_provider_dm.engine.ddl.dialects import adapt
from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.schema.strings import MYSQL_ONLY_CHARSETS

MYSQL_TO_MARIADB: Final = {
    "utf8mb4_0900_ai_ci": "utf8mb4_unicode_520_nopad_ci",
    "utf8mb4_0900_as_ci": "utf8mb4_uca1400_nopad_as_ci",
    "utf8mb4_0900_as_cs": "utf8mb4_uca1400_nopad_as_cs",
    "utf8mb4_0900_bin": "utf8mb4_nopad_bin",
}
MARIADB_TO_MYSQL: Final = {
    "utf8mb4_uca1400_ai_ci": "utf8mb4_unicode_520_ci",
    "utf8mb4_uca1400_nopad_ai_ci": "utf8mb4_0900_ai_ci",
    "utf8mb4_uca1400_nopad_as_ci": "utf8mb4_0900_as_ci",
    "utf8mb4_uca1400_nopad_as_cs": "utf8mb4_0900_as_cs",
    "utf8mb4_unicode_520_nopad_ci": "utf8mb4_0900_ai_ci",
    "utf8mb4_nopad_bin": "utf8mb4_0900_bin",
}
_COLLATIONS: Final[dict[tuple[Flavour, Flavour], dict[str, str]]] = {
    (Flavour.MYSQL, Flavour.MARIADB): MYSQL_TO_MARIADB,
    (Flavour.MARIADB, Flavour.MYSQL): MARIADB_TO_MYSQL,
    (Flavour.MARIADB, Flavour.TIDB): MARIADB_TO_MYSQL,
}

_KEPT_OPTIONS: Final = frozenset({"ENGINE", "DEFAULT CHARSET", "COLLATE", "COMMENT", "ROW_FORMAT"})
_DROPPED_OPTIONS: Final = frozenset({"AUTO_INCREMENT", "STATS_PERSISTENT", "STATS_AUTO_RECALC", "STATS_SAMPLE_PAGES"})


@dataclass(eq=False)
class CannotCreateTarget(DmError):
    """The source's table has something that the target's table cannot be created with."""

    source: str
    target: str
    found: str

    code: ClassVar[str] = "DM-7010"
    scope: ClassVar[Scope] = Scope.DOWNSTREAM
    what: ClassVar[str] = (
        "the target table {target} does not exist and is not created after {source}, which has {found}."
    )
    hint: ClassVar[str] = "Create it by hand, with the same columns and keys, then start again. Nothing was changed."


@dataclass(frozen=True)
class NewTable:
    """A statement for the target. `notes`: what differs from the source and a person may want to know."""

    name: TableName
    sql: str
    notes: tuple[str, ...] = ()
    keyless: bool = False
    """It has no PRIMARY KEY."""


@dataclass(frozen=True)
class NewSchema:
    """A schema for the target. `collation`: its default, as the target's family has it; None: the target's own."""

    name: str
    collation: str | None
    notes: tuple[str, ...] = ()

    def sql(self) -> str:
        """Return the CREATE DATABASE statement; the charset is what the collation's name begins with."""
        plain = f"CREATE DATABASE IF NOT EXISTS {quote(self.name)}"
        if self.collation is None:
            return plain
        return f"{plain} CHARACTER SET {charset_of(self.collation)} COLLATE {self.collation}"


def charset_of(collation: str) -> str:
    """Return the charset that a collation's name begins with.

    >>> charset_of("utf8mb4_0900_ai_ci"), charset_of("binary")
    ('utf8mb4', 'binary')
    """
    return collation.partition("_")[0]


def create_schema_like(name: str, collation: str, *, source_flavour: Flavour, target_flavour: Flavour) -> NewSchema:
    """Return a schema whose tables get, if they do not say otherwise, what the source's would get."""
    if target_flavour is Flavour.MARIADB and charset_of(collation) in MYSQL_ONLY_CHARSETS:
        return NewSchema(name, None, (f"there is no {collation}; its default is the target's own",))
    becomes = _COLLATIONS.get((source_flavour, target_flavour), {}).get(collation.lower(), collation)
    return NewSchema(name, becomes, () if becomes == collation else (f"collation {collation} becomes {becomes}",))


def create_table_like(
    statement: str,
    source: Table,
    target: TableName,
    *,
    source_flavour: Flavour,
    target_flavour: Flavour,
    collation: str,
) -> NewTable:
    """Return the target's CREATE TABLE. `statement` is the source's own; `collation` the source table's default.

    Raises CannotCreateTarget.
    """
    try:
        body, options = _parts(statement)
        clauses = clauses_of(words_of(body))
        adapted = adapt(clauses, source_flavour, target_flavour)
        said = options_of(options, _KEPT_OPTIONS | _DROPPED_OPTIONS)
    except UnknownDdl as unknown:
        raise CannotCreateTarget(str(source.name), str(target), str(unknown)) from None
    described = {name: value for name, value in said.items() if name in _KEPT_OPTIONS}
    described.setdefault("COLLATE", collation)
    swaps = _COLLATIONS.get((source_flavour, target_flavour), {})
    notes = list(adapted.notes)

    def swapped(name: str) -> str:
        if name.lower() in swaps:
            notes.append(f"collation {name} becomes {swaps[name.lower()]}")
        return swaps.get(name.lower(), name)

    words = [word for clause in adapted.clauses for word in (*clause, ",")][:-1]
    columns = " ".join(_with_collations(words, source, swapped))
    described["COLLATE"] = swapped(described["COLLATE"])
    tail = " ".join(f"{name}={value}" for name, value in described.items())
    keyless = not any(key.primary for key in source.unique_keys)
    return NewTable(target, f"CREATE TABLE {target.quoted()} ({columns}) {tail}", tuple(dict.fromkeys(notes)), keyless)


def _parts(statement: str) -> tuple[str, str]:
    """Return what stands between the outer parentheses, and the table's options behind them."""
    start, end = statement.find("(\n"), statement.rfind("\n)")
    if not statement.upper().startswith("CREATE TABLE `") or start < 0 or end < start:
        raise UnknownDdl(f"the statement {statement[:40]!r}…")
    return statement[start + 1 : end], statement[end + 2 :]


def _with_collations(words: list[str], source: Table, swapped: Callable[[str], str]) -> Iterator[str]:
    """Yield the words again: collations swapped, and said where only a character set was."""
    collations = {f"`{column.name.replace('`', '``')}`": column.collation for column in source.columns}
    column = ""
    depth = 0
    for index, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0 and (index == 0 or words[index - 1] == ","):
            column = word
        yield swapped(word) if index and words[index - 1] == "COLLATE" else word
        collation = collations.get(column)
        if collation and names_charset(words, index) and words[index + 1 : index + 2] != ["COLLATE"]:
            yield f"COLLATE {swapped(collation)}"
