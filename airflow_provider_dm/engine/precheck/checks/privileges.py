"""The accounts have the privileges that the task needs; each remedy is a GRANT statement."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_dm.engine.config.units import Consistency
from airflow_provider_dm.engine.copy.gather import LOCKLESS
from airflow_provider_dm.engine.copy.snapshot import SourceLock, locks_of
from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.precheck.facts import ServerFacts, SourceFacts, TargetFacts
from airflow_provider_dm.engine.precheck.result import Findings, State, short_list, verdict

ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE")
DDL = ("CREATE", "ALTER", "DROP", "INDEX")
"""Privileges for executing the source's DDL, in addition to those for writing rows."""


def check_dump(facts: SourceFacts) -> Findings:
    """Check SELECT on the copied tables, and the privileges of the lock for consistent snapshots (copy/snapshot.py)."""
    missing = [name for name in facts.selected if not facts.grants.allow("SELECT", name.schema, name.table)]
    if missing:
        grants = _grants(facts, ("SELECT",), {name.schema for name in missing})
        yield State.FAIL, f"SELECT is missing on {short_list([str(name) for name in missing])}", grants
    elif not facts.selected:
        remedy = "Check do-dbs and do-tables; tables without any privilege on them are invisible. GRANT SELECT on them."
        state = State.WARN if facts.follows else State.FAIL  # tables that are created later arrive by the log
        yield state, "the account sees none of the tables that the block-allow-list selects", remedy
    hidden = _hidden(facts) - {name.schema for name in missing}
    if hidden:
        what = f"SELECT on all of {short_list(sorted(hidden))} is missing: tables on which the account has no privilege"
        grants = _grants(facts, ("SELECT",), hidden)
        yield State.FAIL, f"{what} would be left out silently", f"{grants} or name each table in do-tables."
    unseen = _unseen(facts)
    if unseen and facts.selected:
        what = f"the account sees no table of {short_list(unseen)}, which do-dbs names"
        yield State.WARN, what, "If this source has the schema, grant SELECT on it; otherwise it is left out."
    if facts.copies and facts.info.capabilities.writes_binlog:
        yield from _locks(facts)
    if not missing and not hidden and facts.selected:
        yield State.OK, f"SELECT on {len(facts.selected)} tables", ""


def _grants(facts: ServerFacts, privileges: Iterable[str], schemas: Iterable[str]) -> str:
    """Return the statements that give the account privileges on schemas."""
    head = f"GRANT {', '.join(privileges)} ON"
    return " ".join(f"{head} {quote(schema)}.* TO {facts.account};" for schema in sorted(schemas))


def _hidden(facts: SourceFacts) -> set[str]:
    """Return the schemas that the account sees only in part, and whose tables are selected without being named."""
    seen = {name.schema for name in facts.selected}
    rules = facts.rules.block_allow
    return {table for table in seen if not facts.grants.allow("SELECT", table) and not rules.names_all_of(table)}


def _unseen(facts: SourceFacts) -> list[str]:
    """Return the schemas that are named and not visible: they belong to another source, or privileges are missing."""
    seen = {name.schema.lower() for name in facts.selected}
    named_ones = facts.rules.block_allow.named_schemas()
    return [schema for schema in named_ones if schema.lower() not in seen and not facts.grants.allow("SELECT", schema)]


def _locks(facts: SourceFacts) -> Findings:
    """Check the privileges of the momentary lock under which snapshots are opened, which `consistency` chooses."""
    consistency, server = facts.subtask.mydumper.consistency, facts.info.capabilities
    if consistency in LOCKLESS:
        if not server.snapshots_are_located:
            what = f"`consistency: {consistency}` is not supported on {server.title}"
            yield State.FAIL, what, "Choose auto, lock or flush (`consistency` of the mydumper)."
        return
    locks = locks_of(consistency, server)
    missing = [one for lock in locks if (one := _missing(facts, lock)) is not None]
    if len(missing) < len(locks):
        return
    what = f"snapshots are opened under a momentary lock: {' or '.join(what for what, _ in missing)} is missing"
    if consistency is Consistency.AUTO and server.snapshots_are_located:
        what = f"{what}. Without it, only a few readers can copy while the source is written to"
        yield State.WARN, what, missing[-1][1]
    else:
        yield State.FAIL, what, missing[0][1]


def _missing(facts: SourceFacts, lock: SourceLock) -> tuple[str, str] | None:
    """Return the privileges that the lock needs and the account lacks, and the statements that grant them."""
    if lock is SourceLock.TABLES:
        schemas = {name.schema for name in facts.selected if not facts.grants.allow("LOCK TABLES", name.schema)}
        what = f"LOCK TABLES on {short_list(sorted(schemas))}"
        return (what, _grants(facts, ("LOCK TABLES",), schemas)) if schemas else None
    lacking = [privilege for privilege in lock.privileges(facts.info.capabilities) if not facts.grants.allow(privilege)]
    return (" and ".join(lacking), f"GRANT {', '.join(lacking)} ON *.* TO {facts.account};") if lacking else None


def check_replication(facts: SourceFacts) -> Findings:
    """Check the privileges to read the binlog and its end. A full load only reports the end."""
    wanted = {"REPLICATION CLIENT": facts.info.capabilities.monitor_privilege}
    if facts.follows:
        wanted["REPLICATION SLAVE"] = "REPLICATION SLAVE"
    missing = [shown for privilege, shown in wanted.items() if not facts.grants.allow(privilege)]
    remedy = f"GRANT {', '.join(missing)} ON *.* TO {facts.account};"
    if facts.follows:
        state, what = State.FAIL, f"{short_list(missing)} is missing"
    else:
        state = State.WARN
        what = f"{short_list(missing)} is missing: the result cannot name the start location for an incremental task"
    return verdict(missing, state, what, remedy, fine=", ".join(wanted.values()))


def check_select(facts: SourceFacts) -> Findings:
    """Check SELECT on any table: without a task it is not known which tables will be read."""
    remedy = f"GRANT SELECT ON `SCHEMA`.* TO {facts.account}; for each schema that a task reads."
    schemas = short_list(facts.grants.schemas("SELECT"))
    return verdict(not schemas, State.FAIL, "SELECT is missing on all schemas", remedy, fine=f"SELECT on {schemas}")


def check_target(facts: TargetFacts) -> Findings:
    """Check the privileges to write rows and progress, and to create missing tables."""
    schemas = {name.schema for name in facts.wanted}
    creating = {name.schema for name in facts.wanted if name not in facts.tables} | {facts.task.meta_schema}
    referring = _schemas_with_new_foreign_keys(facts)
    failures = 0
    for schema in sorted(schemas | creating):
        wanted: tuple[str, ...] = (*ROWS, "CREATE") if schema in creating else ROWS
        wanted += facts.info.capabilities.foreign_keys_need if schema in referring else ()
        missing = [privilege for privilege in wanted if not _on_all(facts, privilege, schema)]
        if missing:
            failures += 1
            yield State.FAIL, f"{short_list(missing)} is missing on {schema}", _grants(facts, wanted, {schema})
    if any(source.follows for source in facts.sources):
        related = any(source.follows for source in _of_its_family(facts))
        ddl = (*DDL, *facts.info.capabilities.foreign_keys_need * related)
        for schema in sorted(schemas):
            missing = [privilege for privilege in ddl if not facts.grants.allow(privilege, schema)]
            if missing and not failures:
                what = f"{short_list(missing)} is missing on {schema}: DDL of the source would stop the sync"
                yield State.WARN, what, _grants(facts, (*ROWS, *ddl), {schema})
    if not failures:
        yield State.OK, f"rows can be written to {len(schemas)} schemas and to {facts.task.meta_schema}", ""


def _of_its_family(facts: TargetFacts) -> list[SourceFacts]:
    """Return the sources whose foreign keys are created in the target."""
    return [one for one in facts.sources if one.info.capabilities.family is facts.info.capabilities.family]


def _schemas_with_new_foreign_keys(facts: TargetFacts) -> set[str]:
    """Return the schemas in which a copy creates tables with foreign keys."""
    alike = [one for one in _of_its_family(facts) if one.copies]
    made = [one.rules.router.route(table.name) for one in alike for table in one.tables if table.has_foreign_keys]
    return {name.schema for name in made if name not in facts.tables}


def _on_all(facts: TargetFacts, privilege: str, schema: str) -> bool:
    """Return True if the account has the privilege on the whole schema, or on each wanted table of it."""
    if facts.grants.allow(privilege, schema):
        return True
    tables = [name for name in facts.wanted if name.schema == schema]
    return bool(tables) and all(facts.grants.allow(privilege, *name) for name in tables)
