"""The accounts may do what the task needs, and the remedy is the GRANT to type."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_dm.engine.config.units import Consistency
from airflow_provider_dm.engine.copy.gather import LOCKLESS
from airflow_provider_dm.engine.copy.snapshot import SourceLock, locks_of
from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.precheck.facts import ServerFacts, SourceFacts, TargetFacts
from airflow_provider_dm.engine.precheck.result import Findings, State, named, verdict

ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE")
DDL = ("CREATE", "ALTER", "DROP", "INDEX")
"""What following the source's DDL may take, beside what writing rows does."""


def check_dump(facts: SourceFacts) -> Findings:
    """Check SELECT on what is copied, and the lock under which it is read (copy/snapshot.py)."""
    missing = [name for name in facts.selected if not facts.grants.allow("SELECT", name.schema, name.table)]
    if missing:
        grants = _grants(facts, ("SELECT",), {name.schema for name in missing})
        yield State.FAIL, f"SELECT is missing on {named([str(name) for name in missing])}", grants
    elif not facts.selected:
        remedy = "Check do-dbs and do-tables; tables without any privilege on them are invisible. GRANT SELECT on them."
        state = State.WARN if facts.follows else State.FAIL  # tables that are created later come by the log
        yield state, "the account sees none of the tables that the block-allow-list selects", remedy
    hidden = _hidden(facts) - {name.schema for name in missing}
    if hidden:
        what = f"SELECT on all of {named(sorted(hidden))} is missing: tables of which the account may see nothing"
        grants = _grants(facts, ("SELECT",), hidden)
        yield State.FAIL, f"{what} would be left out without a word", f"{grants} or name each table in do-tables."
    unseen = _unseen(facts)
    if unseen and facts.selected:
        what = f"nothing is to be seen of {named(unseen)}, which do-dbs names"
        yield State.WARN, what, "Where this source has it, grant SELECT on it, else it is left out."
    if facts.copies and facts.info.capabilities.writes_binlog:
        yield from _locks(facts)
    if not missing and not hidden and facts.selected:
        yield State.OK, f"SELECT on {len(facts.selected)} tables", ""


def _grants(facts: ServerFacts, privileges: Iterable[str], schemas: Iterable[str]) -> str:
    """Return the statements that give the account privileges on schemas."""
    head = f"GRANT {', '.join(privileges)} ON"
    return " ".join(f"{head} {quote(schema)}.* TO {facts.account};" for schema in sorted(schemas))


def _hidden(facts: SourceFacts) -> set[str]:
    """Return the schemas that are seen in part at most, and of which tables come in that nobody has named."""
    seen = {name.schema for name in facts.selected}
    rules = facts.rules.block_allow
    return {one for one in seen if not facts.grants.allow("SELECT", one) and not rules.names_all_of(one)}


def _unseen(facts: SourceFacts) -> list[str]:
    """Return the schemas that are asked for by name and not seen: another source's, or hidden from the account."""
    seen = {name.schema.lower() for name in facts.selected}
    named_ones = facts.rules.block_allow.named_schemas()
    return [one for one in named_ones if one.lower() not in seen and not facts.grants.allow("SELECT", one)]


def _locks(facts: SourceFacts) -> Findings:
    """Check the momentary lock under which snapshots are opened, as `consistency` chooses it."""
    consistency, server = facts.subtask.mydumper.consistency, facts.info.capabilities
    if consistency in LOCKLESS:
        if not server.snapshots_are_located:
            what = f"`consistency: {consistency}` is not supported on {server.title}"
            yield State.FAIL, what, "Choose auto, lock or flush (`consistency` of the mydumper)."
        return
    locks = locks_of(consistency, facts.info.flavour)
    missing = [one for lock in locks if (one := _missing(facts, lock)) is not None]
    if len(missing) < len(locks):
        return
    what = f"snapshots are opened under a momentary lock: {' or '.join(what for what, _ in missing)} is missing"
    if consistency is Consistency.AUTO and server.snapshots_are_located:
        what = f"{what}. Without it, few readers copy while the source is written to"
        yield State.WARN, what, missing[-1][1]
    else:
        yield State.FAIL, what, missing[0][1]


def _missing(facts: SourceFacts, lock: SourceLock) -> tuple[str, str] | None:
    """Return the privileges that the lock takes and the account lacks, and the statements that grant them."""
    if lock is SourceLock.TABLES:
        schemas = {name.schema for name in facts.selected if not facts.grants.allow("LOCK TABLES", name.schema)}
        what = f"LOCK TABLES on {named(sorted(schemas))}"
        return (what, _grants(facts, ("LOCK TABLES",), schemas)) if schemas else None
    lacking = [one for one in lock.privileges(facts.info.flavour) if not facts.grants.allow(one)]
    return (" and ".join(lacking), f"GRANT {', '.join(lacking)} ON *.* TO {facts.account};") if lacking else None


def check_replication(facts: SourceFacts) -> Findings:
    """Check the privileges to read the binlog, and to ask where it ends. A full load only reports where it ended."""
    wanted = {"REPLICATION CLIENT": facts.info.capabilities.monitor_privilege}
    if facts.follows:
        wanted["REPLICATION SLAVE"] = "REPLICATION SLAVE"
    missing = [shown for privilege, shown in wanted.items() if not facts.grants.allow(privilege)]
    remedy = f"GRANT {', '.join(missing)} ON *.* TO {facts.account};"
    if facts.follows:
        state, what = State.FAIL, f"{named(missing)} is missing"
    else:
        state = State.WARN
        what = (
            f"{named(missing)} is missing: the result cannot name the location that an incremental task could start at"
        )
    return verdict(missing, state, what, remedy, fine=", ".join(wanted.values()))


def check_select(facts: SourceFacts) -> Findings:
    """Check SELECT on any table at all: which tables a task reads is not known here."""
    remedy = f"GRANT SELECT ON `SCHEMA`.* TO {facts.account}; for each schema that a task reads."
    scopes = [named([str(one) for one in facts.grants.schemas("SELECT")])]
    return verdict(
        not any(scopes), State.FAIL, "SELECT is missing on all schemas", remedy, fine=f"SELECT on {scopes[0]}"
    )


def check_target(facts: TargetFacts) -> Findings:
    """Check the privileges to write rows and progress, and to create what is not there."""
    schemas = {name.schema for name in facts.wanted}
    creating = {name.schema for name in facts.wanted if name not in facts.tables} | {facts.task.meta_schema}
    failures = 0
    for schema in sorted(schemas | creating):
        wanted = (*ROWS, "CREATE") if schema in creating else ROWS
        missing = [privilege for privilege in wanted if not _on_all(facts, privilege, schema)]
        if missing:
            failures += 1
            yield State.FAIL, f"{named(missing)} is missing on {schema}", _grants(facts, wanted, {schema})
    if any(source.follows for source in facts.sources):
        ddl = (*DDL, *facts.info.capabilities.foreign_keys_need)
        for schema in sorted(schemas):
            missing = [privilege for privilege in ddl if not facts.grants.allow(privilege, schema)]
            if missing and not failures:
                what = f"{named(missing)} is missing on {schema}: DDL of the source would stop the sync"
                yield State.WARN, what, _grants(facts, (*ROWS, *ddl), {schema})
    if not failures:
        yield State.OK, f"rows can be written to {len(schemas)} schemas and to {facts.task.meta_schema}", ""


def _on_all(facts: TargetFacts, privilege: str, schema: str) -> bool:
    """Tell whether the account has it on the whole schema, or on each of its tables that is wanted."""
    if facts.grants.allow(privilege, schema):
        return True
    tables = [name for name in facts.wanted if name.schema == schema]
    return bool(tables) and all(facts.grants.allow(privilege, *name) for name in tables)
