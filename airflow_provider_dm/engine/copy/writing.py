"""Rows into the target: the verb, the statements, and what a duplicate means during a copy.

Rows of one identity key come in key order, once, so a plain INSERT can only meet a row that another shard or a stranger
has put there. That is an error; nothing is replaced. Where the target has further unique keys, two pages of different
moments may disagree on who owns a value (a row gave it away, another took it). The binlog from P0 on settles that, so
such tables are written with REPLACE. Shards that collide in a *further* unique key are therefore not noticed here;
verify does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_dm.engine.config.units import LoaderConfig, OnDuplicate
from airflow_provider_dm.engine.copy.job import ChunkJob
from airflow_provider_dm.engine.errors import DmError, NotSupportedYet, Scope
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.target.errors import DuplicateInTarget
from airflow_provider_dm.engine.target.session import execute
from airflow_provider_dm.engine.target.statements import Statement, Verb


@dataclass(eq=False)
class DuplicateDuringCopy(DmError):
    """A row of the copy has the key of a row that is already in the target."""

    source: str
    table: str
    target: str
    key: str
    siblings: tuple[str, ...]

    code: ClassVar[str] = "DM-7006"
    scope: ClassVar[Scope] = Scope.DOWNSTREAM
    what: ClassVar[str] = (
        "{source}: a row of {table} has the same {key} key as a row that is already in {target}, which also takes the "
        "rows of: {siblings}."
    )
    hint: ClassVar[str] = (
        "Nothing was replaced. Make the keys of the shards distinct, give the target another key, or route to "
        "different tables. If the rows are meant to overwrite each other, set the loader's on-duplicate-logical to "
        "replace."
    )


def verb_for(mapping: TableMapping, loader: LoaderConfig) -> Verb:
    """How rows of this table are written (module docstring). Raises NotSupportedYet for on-duplicate-logical ignore."""
    match loader.on_duplicate_logical:
        case OnDuplicate.REPLACE:
            return Verb.REPLACE
        case OnDuplicate.IGNORE:
            way_out = "Use replace or error: which of two rows stays would otherwise be a matter of timing."
            raise NotSupportedYet("on-duplicate-logical ignore", str(mapping.source.name), way_out)
    source_key, target_key = mapping.source.identity, mapping.target.identity
    if source_key is None or target_key is None:
        return Verb.INSERT  # one exact snapshot: no two pages that could disagree
    same_key = {name.lower() for name in source_key.columns} == {name.lower() for name in target_key.columns}
    return Verb.INSERT if same_key and len(mapping.target.unique_keys) == 1 else Verb.REPLACE


def write_all(connection: Connection, statements: Iterable[Statement], job: ChunkJob) -> None:
    """Inside a transaction that has advanced the chunk. Raises DuplicateDuringCopy and what `execute` raises."""
    try:
        for statement in statements:
            execute(connection, statement)
    except DuplicateInTarget as error:
        raise DuplicateDuringCopy(
            job.owner.source,
            str(job.mapping.source.name),
            str(job.mapping.target.name),
            error.key,
            job.siblings or ("this table only",),
        ) from None
