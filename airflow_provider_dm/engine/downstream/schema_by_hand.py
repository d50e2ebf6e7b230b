"""Reading and changing, by hand, the definitions by which a task reads the source's log.

    names ◀── dm_table_schema; text ◀── dm_table_definition
    CREATE TABLE of a user, the source or the target ──▶ parsed completely ──▶ claim ──▶ dm_table_definition

Changes are made only while no run is working, by a claim: later runs read the change.
"""

from __future__ import annotations

from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.ddl.lexer import tokens
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import CreateTable
from airflow_provider_dm.engine.downstream.claim import claimed_for_a_moment
from airflow_provider_dm.engine.downstream.errors import SubtaskMissing
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.session import run_transaction
from airflow_provider_dm.engine.downstream.subtask import known_subtasks
from airflow_provider_dm.engine.downstream.table_definitions import (
    Definition,
    delete_definitions,
    load_definitions,
    save_definitions,
)
from airflow_provider_dm.engine.downstream.table_schema import load_table_schemas
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import create_statement, stored_names
from airflow_provider_dm.engine.schema.errors import TableNotFound


def _definition_refused(table: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"the definition of {table} is refused: {why}.",
        "Give one CREATE TABLE of that table, in the format of its server's SHOW CREATE TABLE.",
    )


def table_not_known(table: str, task: str, source: str) -> InvalidInput:
    return InvalidInput(
        f"task {task} has no table {table} of source {source}.",
        "`dmctl binlog-schema list` shows its tables; the block-allow-list decides which tables it can have.",
    )


def known_tables(connection: Connection, ref: SubtaskRef) -> dict[TableName, Definition]:
    """Return the tables of a subtask by name; without text if a user has removed the definition.

    Raises SubtaskMissing, IncompleteResult.
    """
    if ref.source not in known_subtasks(connection, ref.meta_schema, ref.task, [ref.source]):
        raise SubtaskMissing(*ref.key)
    names = {schema.table.name: Definition("") for schema in load_table_schemas(connection, ref)}
    return dict(sorted((names | load_definitions(connection, ref)).items()))


def change_definition(
    store: MetaStore, target: Endpoint, ref: SubtaskRef, name: TableName, new: Definition | None
) -> None:
    """Store a table's definition, or remove it (None), while no run is working.

    Raises LeaseHeld, SubtaskMissing, InvalidInput (a missing one is to be removed), and the errors of a claim.
    """
    with claimed_for_a_moment(store, target, ref, who="dmctl binlog-schema") as fence:

        def body(connection: Connection) -> bool:
            fence.check(connection)
            if new is None:
                return bool(delete_definitions(connection, ref, [name]))
            old = load_definitions(connection, ref).get(name, Definition(""))
            written = Definition(new.create_sql, new.collation or old.collation, by_hand=True)
            save_definitions(connection, ref, {name: written})
            return True

        if not run_transaction(target, body):
            raise table_not_known(str(name), *ref.key)


def definition_in(sql: str, name: TableName, *, collation: str = "", called: TableName | None = None) -> Definition:
    """Return a table's definition from a statement in which it is named `called` (None: by its own name).

    `collation`: the table's, if the statement does not have it. Raises InvalidInput.
    """
    expected = called or name
    try:
        statement = parse(sql, 0, expected.schema)
        renamed = _renamed(sql, name)
        parse(renamed, 0, name.schema)
    except Unreadable as error:
        raise _definition_refused(str(name), str(error)) from None
    if not isinstance(statement, CreateTable):
        raise _definition_refused(str(name), "it is not a CREATE TABLE with columns")
    if statement.table != expected:
        raise _definition_refused(str(name), f"it is the definition of {statement.table}")
    explicit = dict(statement.definition.options).get("COLLATE", "")
    return Definition(renamed, explicit or collation)


def definition_at(connection: Connection, name: TableName, *, place: TableName | None = None) -> Definition:
    """Return a table's definition on a server, where it is named `place` (None: by its own name).

    Raises TableNotFound, InvalidInput.
    """
    called = stored_names(connection, [place or name])[place or name]
    rows = query(
        connection,
        "SELECT table_collation FROM information_schema.tables "
        "WHERE table_schema = %s AND table_name = %s AND table_type = 'BASE TABLE'",
        (*called,),
    )
    if not rows:
        raise TableNotFound(str(called))
    return definition_in(create_statement(connection, called), name, collation=text(rows[0][0]), called=called)


def _renamed(sql: str, name: TableName) -> str:
    """Return a CREATE TABLE statement with this full name instead of its own, and without a trailing semicolon."""
    read = list(tokens(sql, 0))
    words = [token.text for token in read]
    if "TABLE" not in words:
        return sql
    first = words.index("TABLE") + 1
    first += 3 * (words[first : first + 3] == ["IF", "NOT", "EXISTS"])
    last = first + 2 * (words[first + 1 : first + 2] == ["."])
    if last >= len(read):
        return sql
    return sql[: read[first].start] + name.quoted() + sql[read[last].end :].rstrip(" \t\r\n;")
