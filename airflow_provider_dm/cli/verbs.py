"""The verbs of `dmctl`: which module knows each, and what the help says of it.

A module is imported when its verb is asked for, and no other: what `dmctl run` needs takes more than a second of CPU
time to import, which nobody who asks for the version, the help or a status should wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from airflow_provider_dm.cli.unsupported_verbs import UNSUPPORTED


class Verb(NamedTuple):
    """A verb of the command line. `room`: the module of this package whose `add_verbs` adds it."""

    room: str
    help: str


OWN_VERBS: Final = frozenset({"run", "import-checkpoint", "meta"})
"""The verbs that DM does not have. They answer in text unless --json is given."""

VERBS: Final[Mapping[str, Verb]] = {
    "run": Verb("run", "run a task in the foreground: precheck, full migration, incremental sync, verification"),
    "check-task": Verb(
        "check_task",
        "check that a task can run: logins, grants, binlog settings, tables on both sides; changes nothing",
    ),
    "query-status": Verb("query_status", "show tasks, subtasks and relays as the metadata DB knows them"),
    "start-task": Verb("start_task", "start a task that goes on by itself, or let a paused one go on"),
    "import-checkpoint": Verb("import_checkpoint", "let a task of DM go on here, from DM's checkpoint in the target"),
    "pause-task": Verb("task_control", "let a task, or all tasks of a source, wait between two epochs"),
    "resume-task": Verb("task_control", "let what is paused go on"),
    "stop-task": Verb("task_control", "end a task and forget it: relay files are not kept for it any more"),
    "binlog": Verb(
        "binlog", "skip, replace or precede a DDL statement that a task cannot go past; show a log's events"
    ),
    "handle-error": Verb("binlog", "DM's old name of `binlog`, with the action behind the task"),
    "binlog-schema": Verb("binlog_schema", "show and change the tables by which a task reads the source's log"),
    "operate-schema": Verb("binlog_schema", "DM's old name of `binlog-schema`"),
    "shard-ddl-lock": Verb(
        "shard_ddl_lock", "show what shards of merged tables wait for, and `unlock` one that is stuck"
    ),
    "show-ddl-locks": Verb("shard_ddl_lock", "DM's old name of `shard-ddl-lock`"),
    "unlock-ddl-lock": Verb("shard_ddl_lock", "DM's old name of `shard-ddl-lock unlock`"),
    "start-relay": Verb("relay", "pull a source's binlog in the foreground (--source-file), or let its relay go on"),
    "stop-relay": Verb("relay", "ask the relay of a source to end, wherever it runs"),
    "pause-relay": Verb("relay", "let the relays of sources wait, and see that they do"),
    "resume-relay": Verb("relay", "let paused relays go on, and see that they do"),
    "purge-relay": Verb("purge_relay", "remove relay files that no task needs"),
    "meta": Verb("meta", "create or upgrade the metadata DB, or check its schema version"),
    **{name: Verb("unsupported_verbs", f"not yet. {instead}") for name, instead in UNSUPPORTED.items()},
}
