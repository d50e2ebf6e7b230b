"""Creates missing tables of the target: schemas with the source's default collation, tables, including those without a
key.

It uses no transaction, as DDL commits implicitly; after a failure the next run finds the created tables."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pymysql
from pymysql.constants import ER

from airflow_provider_dm.engine.ddl.create_like import NewSchema, NewTable, ServerPair, create_schema_like
from airflow_provider_dm.engine.downstream.errors import translate
from airflow_provider_dm.engine.downstream.required_keys import check_keyless, key_demanded
from airflow_provider_dm.engine.downstream.session import fresh_target
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.reading.survey import SourceSurvey

log = logging.getLogger(__name__)

_NO_COLLATION: Final = frozenset({ER.UNKNOWN_COLLATION, ER.UNKNOWN_CHARACTER_SET})


def schemas_to_create(
    surveys: Sequence[SourceSurvey], creations: Sequence[NewTable], target: Flavour, *, strict: bool = False
) -> tuple[NewSchema, ...]:
    """Return the schemas of these tables, each like the first source schema whose tables are routed to it."""
    wanted = {creation.name.schema for creation in creations}
    made: dict[str, NewSchema] = {}
    first: dict[str, str] = {}
    for survey in surveys:
        for table in survey.tables:
            name, collation = table.target.schema, survey.collations.get(table.table.name.schema)
            if name not in wanted or collation is None:  # None: a resumed copy whose schema was dropped since
                continue
            if name not in made:
                first[name] = collation
                made[name] = create_schema_like(name, collation, ServerPair(survey.flavour, target, strict=strict))
            elif collation != first[name]:
                note = f"default collations differ at the sources; {collation} is left out, tables have their own"
                made[name] = replace(made[name], notes=tuple(dict.fromkeys((*made[name].notes, note))))
    return tuple(made[name] for name in sorted(made))


def create(
    target: Endpoint, tables: Sequence[NewTable], schemas: Sequence[NewSchema]
) -> tuple[tuple[str, ...], list[NewTable]]:
    """Create missing schemas and tables. Return notes about the schemas, and the tables that were created now.

    Raises KeyDemanded, and the errors of `translate`.
    """
    with fresh_target(target) as connection:
        check_keyless(connection, [str(one.name) for one in tables if one.keyless], str(target))
        about, notes, created = "its schemas", [], []
        try:
            present = {bytes(row[0]).decode() for row in query(connection, "SHOW DATABASES")}
            for schema in schemas:
                if schema.name not in present:
                    about = schema.name
                    notes += _create_schema(connection, schema)
            for table in tables:
                about = str(table.name)
                log.info("creating %s", about)
                if _create_table(connection, table):
                    created.append(table)
        except pymysql.err.Error as error:
            raise translate(error, table=about) from error
    return tuple(notes), created


def _create_schema(connection: Connection, schema: NewSchema) -> list[str]:
    try:
        query(connection, schema.sql())
    except pymysql.err.MySQLError as error:
        if schema.strict or error.args[0] not in _NO_COLLATION:
            raise
        query(connection, replace(schema, collation=None).sql())
        return [f"{schema.name}: the target has no {schema.collation}; the schema has the target's default"]
    return [f"{schema.name}: {note}" for note in schema.notes]


def _create_table(connection: Connection, table: NewTable) -> bool:
    """Return False if the table exists, as another run of this task has created it; it is read again."""
    try:
        query(connection, table.sql)
    except pymysql.err.MySQLError as error:
        demanded = key_demanded(error, str(table.name))
        if demanded is not None:
            raise demanded from None
        if error.args[0] != ER.TABLE_EXISTS_ERROR:
            raise
        return False
    return True
