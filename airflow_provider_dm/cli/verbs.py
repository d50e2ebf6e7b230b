"""The verbs of `dmctl`: the module of each, and its help text.

Only the module of the requested verb is imported: importing the modules of `dmctl run` takes more than a second of CPU
time, which the version, the help or a status should not need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from airflow_provider_dm.cli.unsupported_verbs import UNSUPPORTED


class CommandVerb(NamedTuple):
    """A verb of the command line. `module`: the module of this package whose `add_verbs` adds the verb; `examples`:
    command lines without the name of the program.
    """

    module: str
    help: str
    examples: tuple[str, ...] = ()


TEXT_VERBS: Final = frozenset({"run", "meta"})
"""The verbs that answer in text unless --json is given; DM has none of them."""

VERBS: Final[Mapping[str, CommandVerb]] = {
    "run": CommandVerb(
        "run",
        "run a task in the foreground: precheck, full migration, incremental sync, verification",
        (
            "run task.yaml -s mysql-01.yaml -s mysql-02.yaml",
            "run task.yaml -s mysql-01.yaml --until forever --json",
            "run task.yaml -s mysql-01.yaml --master spark://host:7077 --driver-memory 4g",
        ),
    ),
    "check-task": CommandVerb(
        "check_task",
        "check that a task can run: logins, grants, binlog settings, tables on both sides; changes nothing",
        ("check-task task.yaml -s mysql-01.yaml",),
    ),
    "doctor": CommandVerb(
        "doctor",
        "check this machine, the metadata DB and, with files, sources and task; each failure has a remedy",
        ("doctor", "doctor -s mysql-01.yaml", "doctor task.yaml -s mysql-01.yaml -s mysql-02.yaml"),
    ),
    "query-status": CommandVerb(
        "query_status",
        "show the state of tasks, subtasks and relays",
        (
            "query-status",
            "query-status shop",
            "query-status -s mysql-01 --json",
        ),
    ),
    "start-task": CommandVerb(
        "start_task",
        "start a task in the background, or resume a paused one",
        (
            "start-task task.yaml -s mysql-01.yaml",
            "start-task task.yaml -s mysql-01.yaml --remove-meta",
        ),
    ),
    "pause-task": CommandVerb(
        "task_control",
        "pause a task, or all tasks of a source, between two epochs",
        (
            "pause-task shop",
            "pause-task -s mysql-01",
        ),
    ),
    "resume-task": CommandVerb(
        "task_control",
        "resume paused tasks",
        (
            "resume-task shop",
            "resume-task shop -s mysql-01",
        ),
    ),
    "stop-task": CommandVerb(
        "task_control",
        "end a task and delete its entries in the metadata DB; its checkpoint stays in the target",
        ("stop-task shop",),
    ),
    "binlog": CommandVerb(
        "binlog",
        "skip or replace a DDL statement that stops a task, or inject one before it; show a log's events",
        (
            "binlog skip shop -s mysql-01",
            'binlog replace shop "ALTER TABLE shop.orders ADD COLUMN note text"',
            "binlog events --source-file mysql-01.yaml --from mysql-bin.000003:4711 --rows",
        ),
    ),
    "binlog-schema": CommandVerb(
        "binlog_schema",
        "show and change the table definitions with which a task decodes the source's rows",
        (
            "binlog-schema list task.yaml",
            "binlog-schema get task.yaml shop orders",
            "binlog-schema update task.yaml shop orders orders.sql -s mysql-01",
        ),
    ),
    "shard-ddl-lock": CommandVerb(
        "shard_ddl_lock",
        "show pending DDL of merged tables, and `unlock` one that is stuck",
        (
            "shard-ddl-lock shop",
            "shard-ddl-lock unlock 'shop-`shop`.`orders`' --owner mysql-02",
        ),
    ),
    "show-ddl-locks": CommandVerb("shard_ddl_lock", "DM's older name for `shard-ddl-lock`", ("show-ddl-locks shop",)),
    "unlock-ddl-lock": CommandVerb(
        "shard_ddl_lock", "DM's older name for `shard-ddl-lock unlock`", ("unlock-ddl-lock 'shop-`shop`.`orders`'",)
    ),
    "start-relay": CommandVerb(
        "relay",
        "run a source's relay in the foreground (--source-file), or resume its running relay",
        (
            "start-relay -s mysql-01 --source-file mysql-01.yaml",
            "start-relay -s mysql-01",
        ),
    ),
    "stop-relay": CommandVerb("relay", "stop the relay of a source, on any machine", ("stop-relay -s mysql-01",)),
    "pause-relay": CommandVerb(
        "relay", "pause the relays of sources, and wait until they have paused", ("pause-relay -s mysql-01",)
    ),
    "resume-relay": CommandVerb(
        "relay", "resume paused relays, and wait until they run", ("resume-relay -s mysql-01",)
    ),
    "purge-relay": CommandVerb(
        "purge_relay",
        "remove relay files that no task needs",
        ("purge-relay -s mysql-01 --filename mysql-bin.000007 --dry-run",),
    ),
    "operate-source": CommandVerb(
        "operate_source",
        "create Airflow connections from source files, or delete them",
        ("operate-source create mysql-01.yaml mysql-02.yaml", "operate-source show", "operate-source stop mysql-01"),
    ),
    "config": CommandVerb(
        "operate_source", "import the configuration that DM's `config export` wrote", ("config import --dir configs",)
    ),
    "meta": CommandVerb(
        "meta",
        "create or upgrade the metadata DB, or check its schema version",
        (
            "meta migrate",
            "meta check",
        ),
    ),
    **{name: CommandVerb("unsupported_verbs", f"not supported. {instead}") for name, instead in UNSUPPORTED.items()},
}

WITH_ACTIONS: Final = frozenset({"meta", "binlog", "binlog-schema", "operate-source", "config"})
"""The verbs whose next argument is an action, such as `binlog skip`."""
