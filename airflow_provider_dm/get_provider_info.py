"""The provider info for Airflow, as one value: connection types with their forms, config section, modules.

Airflow calls `get_provider_info` when it lists providers, in every worker as well: this module imports nothing.
`tests/airflow/test_provider_info.py` validates the value against Airflow's own schemas and imports every path in it.
"""

from __future__ import annotations

from typing import Any

_INTEGRATION = "DM"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata, in the format of Airflow's `provider_info.schema.json`."""
    return {
        "package-name": "airflow-provider-dm",
        "name": "DM",
        "description": "Data migration for MySQL-compatible databases: full and incremental, sharded tables merged.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://docs.pingcap.com/tidb/stable/dm-overview",
                "tags": ["service"],
            }
        ],
        "operators": _modules(
            "operators.binlog",
            "operators.checkpoint",
            "operators.full_migration",
            "operators.incremental_sync",
            "operators.precheck",
            "operators.relay",
            "operators.relay_purge",
            "operators.shard_ddl",
            "operators.sources",
            "operators.table_schema",
            "operators.task_control",
            "operators.verify",
        ),
        "sensors": _modules("sensors.relay", "sensors.shard_ddl", "sensors.sync"),
        "hooks": _modules("hooks.checkpoint", "hooks.database", "hooks.metadata", "hooks.relay", "hooks.spark"),
        "triggers": _modules(
            "triggers.events", "triggers.relay", "triggers.run", "triggers.shard_ddl", "triggers.sync"
        ),
        "notifications": ["airflow_provider_dm.notifications.shard_ddl.DmDdlLockNotifier"],
        "extra-links": [
            "airflow_provider_dm.links.dm_page.DmPageLink",
            "airflow_provider_dm.links.spark_ui.SparkUiLink",
        ],
        "plugins": [{"name": "dm", "plugin-class": "airflow_provider_dm.plugins.dm_plugin.DmPlugin"}],
        "cli": ["airflow_provider_dm.airflow_commands.get_dm_cli_commands"],
        "connection-types": [_DM_DATABASE, _DM_META],
        "config": {"dm": _CONFIG},
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _INTEGRATION, "python-modules": [f"airflow_provider_dm.{name}" for name in names]}]


def _field(label: str, description: str, kind: str, **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": [kind, "null"], **schema}}


def _text(label: str, description: str, **schema: Any) -> dict[str, Any]:
    return _field(label, description, "string", **schema)


_TLS: dict[str, Any] = {
    "tls": {
        "label": "Use TLS",
        "description": "Encrypt the connection. Without a CA file the server's identity is not verified.",
        "schema": {"type": ["boolean", "null"], "default": False},
    },
    "tls_ca": _text("TLS CA file", "Path, on every worker, of the CA that signed the server's certificate."),
    "tls_cert": _text("TLS certificate file", "Path, on every worker, of this client's certificate."),
    "tls_key": _text("TLS key file", "Path, on every worker, of this client's private key."),
}

# The remaining keys of a source.yaml, by DM's names. The target's connection needs none of them.
_SOURCE: dict[str, Any] = {
    "enable-relay": _field(
        "Source: keep a relay log",
        "One log for all tasks, kept by DmRelayOperator or `dmctl start-relay`. Off: each task pulls its own.",
        "boolean",
        default=True,
    ),
    "enable-gtid": _field(
        "Source: find locations by GTID", "Required for a failover to another server.", "boolean", default=False
    ),
    "relay-dir": _text(
        "Source: relay directory", "Empty: below [dm] work_dir. [dm] relay_dir overrides it for all sources."
    ),
    "relay-binlog-name": _text(
        "Source: first binlog file", "Start of a new relay log. Empty: the location that tasks need."
    ),
    "relay-binlog-gtid": _text("Source: first GTID set", "The same by GTID, with `find locations by GTID`."),
    "server-id": _field(
        "Source: server id of the relay",
        "Must differ from all servers and replicas of the source. Empty or 0: chosen automatically.",
        "integer",
        minimum=0,
        maximum=4294967295,
    ),
    "spool-limit-mb": _field(
        "Source: private log limit (MiB)",
        "Limit of a private log that the task has not applied yet. Empty: 4096.",
        "integer",
        minimum=1,
    ),
    "case-sensitive": _field(
        "Source: case-sensitive rules", "Patterns of the task's rules distinguish upper and lower case.", "boolean"
    ),
    "purge": _field(
        "Source: purge of relay files",
        'When files that no task needs are removed: {"interval": 3600, "expires": 0, "remain-space": 15}.',
        "object",
    ),
    "checker": _field(
        "Source: retries",
        'Pauses between retries: {"backoff-min": "1s", "backoff-max": "5m", "backoff-factor": 2}.',
        "object",
    ),
    "filters": _field(
        "Source: binlog event filters",
        'Rules for every task of the source: [{"schema-pattern": "a*", "events": ["drop table"], "action": "Ignore"}].',
        "array",
    ),
}

_DM_DATABASE: dict[str, Any] = {
    "connection-type": "dm_database",
    "hook-class-name": "airflow_provider_dm.hooks.database.DmDatabaseHook",
    "hook-name": "DM database (MySQL, MariaDB, TiDB)",
    # Airflow 3.3.2 refuses to test a stored connection without a port: its UI sends 0 where none is stored.
    "ui-field-behaviour": {
        "hidden-fields": ["schema"],
        "relabeling": {"login": "User"},
        "placeholders": {"host": "10.0.0.5", "port": "3306 (needed by Test)", "login": "dm"},
    },
    "conn-fields": {
        "flavour": _text(
            "Flavour",
            "The expected kind of server; auto detects it.",
            enum=["auto", "mysql", "mariadb", "tidb"],
            default="auto",
        ),
        **_TLS,
        "session": _field(
            "Session variables", 'Set at connect, as a JSON object: {"tidb_mem_quota_query": "4294967296"}.', "object"
        ),
        **_SOURCE,
    },
}

_DM_META: dict[str, Any] = {
    "connection-type": "dm_meta",
    "hook-class-name": "airflow_provider_dm.hooks.metadata.DmMetadataHook",
    "hook-name": "DM metadata database",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"login": "User", "schema": "Database"},
        "placeholders": {
            "host": "empty for SQLite",
            "port": "3306, 5432; 0 for SQLite (needed by Test)",
            "schema": "dm_meta, or the path of the SQLite file",
        },
    },
    "conn-fields": {
        "driver": _text(
            "Driver",
            "SQLite serves one machine only. Airflow's own metadata database is never used.",
            enum=["sqlite", "mysql+pymysql", "postgresql+psycopg"],
            default="mysql+pymysql",
        ),
        **_TLS,
    },
}

_CONFIG: dict[str, Any] = {
    "description": "Defaults of the DM provider's operators, sensors and hooks.",
    "options": {
        "metadata_conn_id": {
            "description": "Connection of type dm_meta. If it does not exist, a SQLite file in work_dir is used.",
            "version_added": "0.1.0",
            "type": "string",
            "example": "dm_meta_production",
            "default": "dm_meta_default",
        },
        "spark_master": {
            "description": "Spark master if the task's Spark connection does not exist.",
            "version_added": "0.1.0",
            "type": "string",
            "example": "local[8,4]",
            "default": "local[*,4]",
        },
        "work_dir": {
            "description": (
                "Folder of this machine for job files, relay logs of sources without relay-dir, and the default "
                "SQLite metadata database. Relative paths are below AIRFLOW_HOME."
            ),
            "version_added": "0.1.0",
            "type": "string",
            "example": "/var/lib/dm",
            "default": "dm",
        },
        "relay_dir": {
            "description": (
                "Folder of this machine for the relay logs of all sources, each in a folder with its id; overrides the "
                "sources' relay-dir. Relative paths are below AIRFLOW_HOME. Empty: each source's own relay-dir."
            ),
            "version_added": "0.1.0",
            "type": "string",
            "example": "/data/relay",
            "default": "",
        },
        "poll_interval": {
            "description": "Seconds between two polls of a relay's or run's state.",
            "version_added": "0.1.0",
            "type": "float",
            "example": "5",
            "default": "2",
        },
    },
}
