"""Removing all rows that one owner has put into a merged table, while others go on to write there.

dm_row_owner has the keys of its rows, so they are deleted by those, some in each transaction, each with its record: who
dies in between goes on with what is left. A key that is too long to be kept whole is found by reading the keys of the
target's table once. Nobody may write rows of this owner meanwhile, and none of them may wait for its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Final

import pymysql

from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.merge.recorded_key import check_recorded_key
from airflow_provider_dm.engine.merge.writer import identity_reader
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.reading.text_rows import rows
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import codec_for
from airflow_provider_dm.engine.schema.model import Column
from airflow_provider_dm.engine.target.errors import translate
from airflow_provider_dm.engine.target.identity import Fence
from airflow_provider_dm.engine.target.row_key import key_values
from airflow_provider_dm.engine.target.row_owner import RowOwner, forget_some, is_any_recorded, some_recorded
from airflow_provider_dm.engine.target.session import execute, run_transaction, target_dialect
from airflow_provider_dm.engine.target.statements import Dialect, Literals, delete_rows

ROWS_OF_A_TRANSACTION: Final = 1_000


def remove_rows(target: Endpoint, fence: Fence, owner: RowOwner, mapping: TableMapping | None) -> None:
    """Remove the owner's rows and their records. `mapping`: its table as it was when they were written, and the
    target's as it is now; None: that is gone, and so are the rows.

    Raises RecordedKeyChanged, NotSupportedYet where they cannot be found, Fenced, TargetWentBack, and what writing
    raises.
    """
    if mapping is not None:
        run_transaction(target, lambda tx: _check_key(tx, owner, mapping))
        _remove_short(target, fence, owner, mapping)
        if run_transaction(target, lambda tx: is_any_recorded(tx, owner.ref, owner.number)):
            _remove_long(target, fence, owner, mapping)

    def forget(connection: Connection) -> int:
        fence.check(connection)
        return forget_some(connection, owner.ref, owner.number, ROWS_OF_A_TRANSACTION)

    while run_transaction(target, forget):
        pass


def _check_key(connection: Connection, owner: RowOwner, mapping: TableMapping) -> None:
    """Check that the records name the owner's rows, if there are any."""
    if is_any_recorded(connection, owner.ref, owner.number):
        check_recorded_key(connection, owner, mapping.target)


def _remove_short(target: Endpoint, fence: Fence, owner: RowOwner, mapping: TableMapping) -> None:
    dialect = target_dialect(target)
    writers = [codec_for(mapping.source.name, one).literal(dialect.server.flavour) for one in _identity(mapping)]

    def literals(key: bytes) -> Literals:
        values = key_values(key) or []
        return tuple([write(value) for write, value in zip(writers, values, strict=True)])

    def body(connection: Connection) -> int:
        fence.check(connection)
        keys = some_recorded(connection, owner.ref, owner.number, ROWS_OF_A_TRANSACTION)
        _delete(connection, owner, mapping, dialect, keys, list(map(literals, keys)))
        return len(keys)

    while run_transaction(target, body):
        pass


def _remove_long(target: Endpoint, fence: Fence, owner: RowOwner, mapping: TableMapping) -> None:
    dialect = target_dialect(target)
    reader = identity_reader(mapping, dialect.server.flavour)
    if reader is None:
        raise NotSupportedYet(
            "finding rows by keys of more than 64 bytes which source and target show in two ways",
            str(mapping.target.name),
            "Make the key's columns of both tables alike.",
        )
    select, read = reader

    def remove(found: Sequence[tuple[bytes, Literals]]) -> None:
        def body(connection: Connection) -> None:
            fence.check(connection)
            mine = owner.recorded(connection, [key for key, _ in found])
            doomed = [(key, literals) for key, literals in found if key in mine]
            keys, literals = [key for key, _ in doomed], [one for _, one in doomed]
            _delete(connection, owner, mapping, dialect, keys, literals)

        run_transaction(target, body)

    try:
        with connected(target) as connection, closing(rows(connection, select.encode())) as batches:
            for batch in batches:
                found = list(map(read, batch.rows))
                for at in range(0, len(found), ROWS_OF_A_TRANSACTION):
                    remove(found[at : at + ROWS_OF_A_TRANSACTION])
    except pymysql.err.Error as error:
        raise translate(error, server=str(target)) from error


def _delete(
    connection: Connection,
    owner: RowOwner,
    mapping: TableMapping,
    dialect: Dialect,
    keys: Sequence[bytes],
    literals: Sequence[Literals],
) -> None:
    for statement in delete_rows(mapping, literals, dialect=dialect):
        execute(connection, statement)
    owner.forget(connection, keys)


def _identity(mapping: TableMapping) -> list[Column]:
    """Return the key's columns as the owner has them; what routing fills, as the target has it."""
    identity, ours = mapping.target.identity, mapping.source.by_name
    if identity is None:
        way_out = "Give the target's table its key again."
        raise NotSupportedYet("removing rows of a table that has lost its key", str(mapping.target.name), way_out)
    return [ours.get(name.lower()) or mapping.target.column(name) for name in identity.columns]
