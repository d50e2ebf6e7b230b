"""Rows into the target: the verb, the statements, and what a duplicate means during a copy.

Rows of one identity key come in key order, once, so a plain INSERT can only meet a row that a stranger has put there.
That is an error; nothing is replaced. Where the target has further unique keys, two pages of different moments may
disagree on which row has a value (one gave it away, another took it). The binlog from P0 on settles that, so such
tables are written with REPLACE, once it is seen that no row of these identity keys is there.

Merged tables are written as `merge` has it. Only where the user lets rows overwrite each other, they are written like
tables of one owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from airflow_provider_dm.engine.config.units import LoaderConfig, OnDuplicate
from airflow_provider_dm.engine.copy.job import ChunkJob
from airflow_provider_dm.engine.errors import DmError, NotSupportedYet, Scope
from airflow_provider_dm.engine.merge.writer import OwnerWriter, Rows
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.target.contested_row import contested_keys
from airflow_provider_dm.engine.target.errors import DuplicateInTarget
from airflow_provider_dm.engine.target.session import count, execute
from airflow_provider_dm.engine.target.statements import Literals, Statement, Verb


class Contested(DmError):
    """A REPLACE removed rows, of which some may be those that another shard committed a moment ago. Rolls back."""

    code = "DM-7016"
    what = "rows were replaced that had not been there before."
    hint = "Nothing was written; it is tried in another way by itself."


class DuplicateDuringCopy(DmError):
    """A row of the copy has the key of a row that is already in the target."""

    source: str
    table: str
    target: str
    key: str
    siblings: tuple[str, ...]

    code = "DM-7006"
    scope = Scope.DOWNSTREAM
    what = (
        "{source}: a row of {table} has the same {key} key as a row that is already in {target}, which also takes the "
        "rows of: {siblings}."
    )
    hint = (
        "Nothing was replaced. Make the keys of the shards distinct, give the target another key, or route to "
        "different tables. If the rows are meant to overwrite each other, set the loader's on-duplicate-logical to "
        "replace."
    )


def verb_for(mapping: TableMapping, loader: LoaderConfig) -> Verb:
    """Return how rows of this table are written (module docstring). Raises NotSupportedYet for on-duplicate-logical
    ignore.
    """
    match loader.on_duplicate_logical:
        case OnDuplicate.REPLACE:
            return Verb.REPLACE
        case OnDuplicate.IGNORE:
            way_out = "Use replace or error: which of two rows stays would otherwise be a matter of timing."
            raise NotSupportedYet("on-duplicate-logical ignore", str(mapping.source.name), way_out)
    if mapping.source.identity is None or mapping.target.identity is None:
        return Verb.INSERT  # one exact snapshot: no two pages that could disagree
    return Verb.INSERT if same_key(mapping) and len(mapping.target.unique_keys) == 1 else Verb.REPLACE


def same_key(mapping: TableMapping) -> bool:
    """Tell whether source and target tell rows apart by the same columns."""
    ours, theirs = (
        side.identity and {*map(str.lower, side.identity.columns)} for side in (mapping.source, mapping.target)
    )
    return ours is not None and ours == theirs


def key_literals(mapping: TableMapping, rows: Iterable[Literals]) -> Iterator[Literals]:
    """Yield the identity keys of rows in the source's column order."""
    identity = mapping.target.identity
    places = [mapping.source.column(name).position for name in identity.columns] if identity else []
    return (tuple([row[place] for place in places]) for row in rows)


def check_absent(connection: Connection, statements: Iterable[Statement], job: ChunkJob) -> None:
    """Check, before a REPLACE, that no row has these identity keys (`count_rows`). Raises DuplicateDuringCopy.

    A page comes once, in key order; so whoever has such a key already is another shard or a stranger."""
    for statement in statements:
        if count(connection, statement):
            raise _duplicate(job, "identity")


def copy_merged(connection: Connection, writer: OwnerWriter, rows: Rows) -> None:
    """Write rows of a page into a merged table, inside the transaction that has advanced the chunk.

    Raises TooManyContested.
    """
    owner = writer.owner
    waiting = contested_keys(connection, owner.ref, writer.mapping.target.name)
    writer.copy(connection, waiting.get(owner.table, set()), rows)


def write_all(connection: Connection, statements: Iterable[Statement], job: ChunkJob) -> int:
    """Execute the statements inside a transaction that has advanced the chunk. Returns the rows affected.

    Raises DuplicateDuringCopy and what `execute` raises.
    """
    try:
        return sum(execute(connection, statement) for statement in statements)
    except DuplicateInTarget as error:
        raise _duplicate(job, error.key) from None


def _duplicate(job: ChunkJob, key: str) -> DuplicateDuringCopy:
    mapping, siblings = job.mapping, job.siblings or ("this table only",)
    return DuplicateDuringCopy(job.fence.ref.source, str(mapping.source.name), str(mapping.target.name), key, siblings)
