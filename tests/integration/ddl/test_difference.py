"""The difference between two definitions changes one table to the other on servers, too.

Random ALTERs are made to a copy of a table; the one that is found is made to another copy, and both are alike then.
`DM_DDL_STATEMENTS` (20) and `DM_DDL_SEED` as in test_tracker.py.
"""

import os
import random
import re
from collections import Counter
from dataclasses import replace
from typing import Final

import pymysql

from airflow_provider_dm.engine.ddl.difference import alter_between
from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.statements import CheckConstraint, TableDefinition
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.write import statement_sql
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import create_statement
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.ddl.oracle import CANNOT_TRACK, Oracle, difference
from tests.integration.ddl.random_ddl import RandomDdl

STATEMENTS: Final = int(os.environ.get("DM_DDL_STATEMENTS", "20"))
SEED: Final = int(os.environ.get("DM_DDL_SEED", "20250301"))
COPIES: Final = ("origin", "ghost", "other")
_ALTER: Final = re.compile(r"ALTER TABLE (?:IF EXISTS )?\s*(\S+)(?!.*(?:RENAME|CHANGE))", re.DOTALL)


def test_random_alters_are_found(source: Server, fresh_schema: FreshSchema) -> None:
    oracle, chance, found = Oracle(source, fresh_schema(source)), random.Random(SEED), Counter[str]()
    ddl = RandomDdl(chance.random(), oracle.upstream, oracle.schema, foreign_keys=False)
    while found.total() < STATEMENTS:
        sql = ddl.statement(oracle.tracker)
        if (altered := _ALTER.match(sql)) is not None:
            found[judged(oracle, sql, altered[1])] += 1
            oracle.ask(f"DROP TABLE IF EXISTS {', '.join(COPIES)}")
        if oracle.run(sql).startswith(CANNOT_TRACK) or len(oracle.history) > 40:
            oracle.begin()
    assert found["alike"] > STATEMENTS / 4, found


def judged(oracle: Oracle, sql: str, real: str) -> str:
    """Return what has come of one ALTER."""
    origin, ghost, other = (TableName(oracle.schema, name) for name in COPIES)
    try:
        for name, like in zip(COPIES, (real, "origin", "origin"), strict=True):
            oracle.ask(f"CREATE TABLE {name} LIKE {like}")
        oracle.ask(sql.replace(real, "ghost", 1))
    except pymysql.Error:
        return "refused"
    shown = {name: create_statement(oracle.reader, name) for name in (origin, ghost)}
    try:
        alter = alter_between(Tracker.of(oracle.upstream, shown, {}), origin, ghost)
    except CannotTrack as why:
        return f"left open: {why}"
    made = "" if alter is None else statement_sql(alter, 0, oracle.upstream.flavour).replace("origin", "other")
    story = "\n".join((sql, *shown.values(), made))
    try:
        oracle.ask(made or "DO 0")
    except pymysql.Error as error:
        raise AssertionError(f"{story}\n{error}") from None
    shown = {name: create_statement(oracle.reader, name) for name in (ghost, other)}
    wanted, got = (Tracker.of(oracle.upstream, shown, {}).definition(name) for name in (ghost, other))
    assert difference(_unnamed(wanted), _unnamed(got)) == "", f"{story}\n{shown[other]}"
    return "alike"


def _unnamed(definition: TableDefinition) -> TableDefinition:
    """Return the definition without the names of CHECKs, in their order."""
    found = (
        replace(one, constraint=None) if isinstance(one, CheckConstraint) else one for one in definition.constraints
    )
    return replace(definition, constraints=tuple(sorted(found, key=str)))
