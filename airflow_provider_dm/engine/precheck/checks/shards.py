"""Merged tables: whether their shards have the same definition at the start, and how their DDL is treated."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from airflow_provider_dm.engine.config.task import ShardMode
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.precheck.errors import ShardsDiffer
from airflow_provider_dm.engine.precheck.facts import SourceFacts, TargetFacts
from airflow_provider_dm.engine.precheck.result import Findings, State, message_and_remedy, short_list
from airflow_provider_dm.engine.schema.model import Table

_WIDTH: Final = re.compile(r"^((?:tiny|small|medium|big)?int(?:eger)?|year)\s*\(\d+\)", re.IGNORECASE)
_DOCUMENTS: Final = frozenset({"json", "longtext"})
"""Data types that the two flavours use for JSON."""

_Form: TypeAlias = tuple[str, bool, bool]
"""A column's type, whether it may be NULL, and its generation expression."""


@dataclass(frozen=True)
class _Shard:
    """A table and its source."""

    source: SourceFacts
    table: Table

    def __str__(self) -> str:
        return f"{self.source.id}:{self.table.name}"


def merges(facts: TargetFacts) -> bool:
    """Return True if the task replicates the log of tables that it merges."""
    return any(source.follows for source in facts.sources) and bool(_merged(facts))


def check_shards(facts: TargetFacts) -> Findings:
    """Check that all shards of each merged table have the same definition at the start; without shard-mode, warn about
    DDL.

    A source that joins a task is compared with the others as of their applied rows. If a task starts in the past, its
    log may contain the DDL by which shards differ now: that is a warning.
    """
    merged = _merged(facts)
    yield from _check_safe_mode(merged)
    yield from _check_filters(merged)
    if facts.task.sharding is ShardMode.NONE:
        what = f"several tables are merged into {short_list([str(one) for one in merged])}, but shard-mode is not set"
        yield State.WARN, f"{what}: DDL on one of them stops the sync", "Set shard-mode: pessimistic."
        return
    differing = 0
    for target, shards in merged.items():
        fresh = [shard for shard in shards if shard.source.id not in facts.begun]
        begun = [_applied(facts, shard) for shard in shards if shard.source.id in facts.begun]
        first, *others = [*begun[:1], *fresh]
        for other in others:
            flavours = {one.source.info.flavour for one in (first, other)}
            if differs := shard_difference(first.table, other.table, one_flavour=len(flavours) == 1):
                differing += 1
                state = State.FAIL if other.source.copies else State.WARN
                yield state, *message_and_remedy(ShardsDiffer(str(target), str(first), str(other), differs))
    if not differing:
        yield State.OK, f"the shards of {len(merged)} merged tables have the same definitions", ""


def _check_safe_mode(merged: Mapping[TableName, Sequence[_Shard]]) -> Findings:
    safe = {target: {shard.source.subtask.syncer.safe_mode for shard in shards} for target, shards in merged.items()}
    if mixed := [str(target) for target, modes in safe.items() if len(modes) > 1]:
        what = f"safe-mode is true for some of the sources of the merged tables {short_list(mixed)}"
        yield State.FAIL, f"{what}, but not for others", "Set safe-mode for all of these sources, or for none."
    loose = [str(target) for target, modes in safe.items() if modes == {True}]
    if loose:
        what = f"safe-mode: true, so rows with the same key in several source tables of {short_list(loose)}"
        remedy = (
            "Remove safe-mode unless you want them to: restarts are exact without it, and a collision stops the task. "
            "query-status counts collisions (docs/how-to/safe-mode.md)."
        )
        yield State.WARN, f"{what} overwrite each other", remedy


def _check_filters(merged: Mapping[TableName, Sequence[_Shard]]) -> Findings:
    in_order = [
        str(target)
        for target, shards in merged.items()
        if any(shard.source.follows and shard.source.rules.may_ignore_rows(shard.table.name) for shard in shards)
    ]
    if in_order:
        what = f"filters ignore INSERTs or UPDATEs of source tables of {short_list(in_order)}"
        remedy = "Nothing, if no two source tables have rows with the same key (docs/how-to/filters.md)."
        yield (State.WARN, f"{what}, so rows with the same key in several source tables overwrite each other", remedy)


def shard_difference(one: Table, other: Table, *, one_flavour: bool) -> str:
    """Return the difference of two shards that matters to DDL of both; "" if there is none.

    Charsets and collations are not compared: their names differ between flavours.
    """
    mine, theirs = _columns(one), _columns(other)
    if mine.keys() != theirs.keys():
        return f"columns ({_names(mine, theirs)})"
    if list(mine) != list(theirs):
        return f"the order of columns ({', '.join(mine)}; {', '.join(theirs)})"
    for name in mine:
        if mine[name] != theirs[name] and (one_flavour or not _are_documents(mine[name], theirs[name])):
            return f"column {name} ({_shown(mine[name])}; {_shown(theirs[name])})"
    if (mine_keys := _keys(one)) != (their_keys := _keys(other)):
        return f"unique keys ({_key_names(mine_keys)}; {_key_names(their_keys)})"
    return ""


def plain_type(column_type: str) -> str:
    """Return a type in the notation that both flavours share.

    >>> plain_type("int(10) unsigned"), plain_type("TINYINT(1)"), plain_type("varchar(10)"), plain_type("enum('A')")
    ('int unsigned', 'tinyint', 'varchar(10)', "enum('A')")
    """
    return _WIDTH.sub(r"\1", column_type if "'" in column_type else column_type.lower())


def _merged(facts: TargetFacts) -> dict[TableName, list[_Shard]]:
    found: dict[TableName, list[_Shard]] = {}
    for source in facts.sources:
        for table, target in facts.of_task(source):
            found.setdefault(target, []).append(_Shard(source, table))
    return {target: shards for target, shards in found.items() if len(shards) > 1}


def _applied(facts: TargetFacts, shard: _Shard) -> _Shard:
    """Return a shard of a started source with its definition as of the applied rows, before any later DDL."""
    held = facts.begun[shard.source.id].held
    return replace(shard, table=held.get(shard.table.name, shard.table))


def _columns(table: Table) -> dict[str, _Form]:
    return {
        one.name.lower(): (plain_type(one.column_type), one.nullable, one.generated) for one in table.stored.columns
    }


def _are_documents(mine: _Form, theirs: _Form) -> bool:
    return {mine[0], theirs[0]} == _DOCUMENTS and mine[1:] == theirs[1:]


def _keys(table: Table) -> set[tuple[str, ...]]:
    return {tuple(name.lower() for name in key.columns) for key in table.unique_keys}


def _names(mine: Mapping[str, object], theirs: Mapping[str, object]) -> str:
    only = {"first": sorted(mine.keys() - theirs.keys()), "second": sorted(theirs.keys() - mine.keys())}
    return "; ".join(f"only the {which} has {', '.join(names)}" for which, names in only.items() if names)


def _shown(form: _Form) -> str:
    kind, nullable, generated = form
    return f"{kind}{'' if nullable else ' NOT NULL'}{' generated' if generated else ''}"


def _key_names(keys: set[tuple[str, ...]]) -> str:
    return ", ".join(f"({', '.join(key)})" for key in sorted(keys)) or "none"
