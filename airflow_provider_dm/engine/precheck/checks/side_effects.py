"""Changes that a server makes by itself when a row is written: triggers of the target, cascades of the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from airflow_provider_dm.engine.mysql.connection import query, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.precheck.facts import SourceFacts, TargetFacts
from airflow_provider_dm.engine.precheck.result import Findings, State, short_list, verdict
from airflow_provider_dm.engine.reading.survey import cascades_are_logged
from airflow_provider_dm.engine.schema.catalogue import create_statement, stored_names

TRIGGERS: Final = "target_triggers"
CASCADES: Final = "foreign_key_cascades"

_TRIGGERS: Final = (
    "SELECT event_object_schema, event_object_table, trigger_schema, trigger_name FROM information_schema.triggers"
)
_ACTION: Final = r" ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT|RESTRICT|NO ACTION)"
_FOREIGN_KEY: Final = re.compile(
    rf"^\s*CONSTRAINT (?P<name>.+?) FOREIGN KEY \(.+\) REFERENCES .+?\)(?P<actions>(?:{_ACTION})+),?$", re.MULTILINE
)
_CHANGES_ROWS: Final = re.compile(r"CASCADE|SET NULL|SET DEFAULT")


def check_triggers(facts: TargetFacts) -> Findings:
    """Check that the target tables have no triggers. The changes of the source's triggers are in its binlog and its
    rows: triggers of the target would repeat them, or make other changes.

    Both servers show triggers only to an account with the TRIGGER privilege, which a task does not need: without it no
    trigger is visible, and this check passes."""
    wanted = set(stored_names(facts.connection, facts.wanted).values())
    triggers = sorted(
        f"{TableName(text(schema), text(trigger))} on {table}"
        for table_schema, table_name, schema, trigger in query(facts.connection, _TRIGGERS)
        for table in [TableName(text(table_schema), text(table_name))]
        if table in wanted
    )
    what = f"triggers would run for every row that is written: {short_list(triggers)}"
    remedy = (
        f"Drop or disable them during the migration, or name {TRIGGERS} in ignore-checking-items if they do no harm."
    )
    return verdict(triggers, State.FAIL, what, remedy, fine=f"no visible triggers on {len(wanted)} target tables")


def check_cascades(facts: SourceFacts) -> Findings:
    """Check for cascading foreign keys: if InnoDB executes a cascade, the changed rows of the child are not logged.

    MySQL 9.6 moved cascades out of InnoDB, and logs them; `innodb_native_foreign_keys` restores the old behaviour. Only
    the child table matters: its parent may be outside of the selection."""
    cascades = [f"{table} {key}" for table in facts.selected for key in _cascades(facts, table)]
    if not cascades:
        yield State.OK, "no foreign keys that change rows of the selected tables", ""
    elif cascades_are_logged(facts.connection):
        yield State.OK, f"{len(cascades)} foreign keys change rows of the selected tables, and the binlog has them", ""
    else:
        remedy = (
            "Rows that a cascade deletes or changes would stay unchanged in the target. Let the application or "
            "triggers of the source change the child rows instead, leave these tables out, or name "
            f"{CASCADES} in ignore-checking-items if no parent row is deleted or changes its key during the migration."
        )
        of_mysql = facts.info.capabilities.cascades_can_be_logged
        who = "the binlog of MySQL before 9.6, or with innodb_native_foreign_keys," if of_mysql else "MariaDB's binlog"
        what = f"foreign keys change rows of their tables and {who} does not have these changes: {short_list(cascades)}"
        yield State.FAIL, what, remedy


def _cascades(facts: SourceFacts, table: TableName) -> Iterator[str]:
    # Not information_schema.referential_constraints: MariaDB shows it only with more privileges than SELECT.
    for key in _FOREIGN_KEY.finditer(create_statement(facts.connection, table)):
        if _CHANGES_ROWS.search(key["actions"]):
            yield f"{key['name'].strip('`')} ({key['actions'].strip()})"
