"""Sync merged tables, and ask a user to decide if their shards have executed different DDL.

With `shard-mode: pessimistic` a DDL on a merged table is executed when all its shards have executed it. If shards are
missing, `sync` ends with the status `waiting for lock` when everything else is applied. `agreed` then waits, deferred,
until the next run of this DAG (or another sync of the task) has applied the missing DDL; give the DAG a schedule.

If two sources have executed different DDL, `sync` stops, `agreed` fails at once, and `ask` shows both sides in Airflow
(Browse, Required Actions). The user's answer becomes the decision about the lock, and `sync_again` continues.

    sync ─▶ agreed ─ fails ▶ ask ─┬▶ run_that_of_… ─┬▶ sync_again ─▶ synced
      │                           ├▶ made_by_hand ──┘                  ▲
      │                           └▶ later                             │
      └────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import HITLBranchOperator
from airflow.sdk import DAG

from airflow_provider_dm.operators.incremental_sync import DmIncrementalSyncOperator
from airflow_provider_dm.operators.shard_ddl import DmShardDdlLockOperator
from airflow_provider_dm.params import target_param, task_param
from airflow_provider_dm.sensors.shard_ddl import ShardDdlLockSensor

SOURCES = ("mariadb-01", "mysql-02")

LOCKS = "{% set locks = ti.xcom_pull(task_ids='agreed', key='dm_ddl_locks') or [] %}"
_DIFFERS = (
    "((locks | selectattr('phase', 'in', ['conflict', 'differs']) | list)[0] "
    "| default({'ID': 'that differs', 'number': 0}))"
)
DECIDED: dict[str, Any] = {
    key: LOCKS + f"{{{{ {_DIFFERS}.{name} }}}}" for key, name in (("lock_id", "ID"), ("number", "number"))
}
"""The lock to decide about: the first of the shown locks with different DDL. If there is none (a timeout, or shards of
one source are out of order), no lock has this id, so nothing is decided."""
BODY = (
    LOCKS
    + """\
{% for lock in locks %}
**{{ lock.ID }}**, number {{ lock.number }}, {{ lock.phase }} for {{ lock.ageSeconds | int }} s
{% for source, ddls in lock.conflict.items() %}
{{ source }} has executed:

    {{ ddls | join(';\n    ') }}
{% endfor %}
{% if not lock.conflict %}
    {{ lock.DDLs | join(';\n    ') }}

executed by {{ lock.synced | join(', ') }}; missing: {{ lock.unsynced | join(', ') or 'none' }}
{% endif %}
{% else %}
There is no lock to decide about. The log of `agreed` has the error.
{% endfor %}
None of these statements was executed in the target. The decision applies to the first lock in conflict. It is rejected
if there is none, or if another number of that lock is pending when you answer.
"""
)
LATER = "Decide later"
MADE_BY_HAND = "I have altered the target myself"
RUN_THAT_OF = {f"Execute the DDL of {source}": f"run_that_of_{source}" for source in SOURCES}

with DAG(
    dag_id="dm_shard_ddl",
    description="DDL of merged tables; a user decides conflicts",
    schedule=None,
    catchup=False,
    params={"task": task_param(Path(__file__).with_name("dm_demo.task.yaml")), "target": target_param()},
    tags=["dm", "demo"],
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=2)},
) as dag:
    of_task: dict[str, Any] = {"task": "{{ params.task }}"}
    # Several runs of this DAG may wait at once, but only one syncs.
    syncs: dict[str, Any] = {
        **of_task,
        "target_conn_id": "{{ params.target }}",
        "until": "caught-up",
        "max_active_tis_per_dag": 1,
    }
    sync = DmIncrementalSyncOperator(task_id="sync", **syncs)
    agreed = ShardDdlLockSensor(task_id="agreed", deferrable=True, trigger_rule="all_done", **of_task)
    ask = HITLBranchOperator(
        task_id="ask",
        trigger_rule="all_failed",
        subject="Shards of a merged table have executed different DDL. What should the target execute?",
        body=BODY,
        options=[*RUN_THAT_OF, MADE_BY_HAND, LATER],
        options_mapping={**RUN_THAT_OF, MADE_BY_HAND: "made_by_hand", LATER: "later"},
    )
    decisions = [
        DmShardDdlLockOperator(task_id=f"run_that_of_{source}", lock_owner=source, **DECIDED) for source in SOURCES
    ]
    decisions.append(DmShardDdlLockOperator(task_id="made_by_hand", action="skip", **DECIDED))
    sync_again = DmIncrementalSyncOperator(task_id="sync_again", trigger_rule="none_failed_min_one_success", **syncs)
    # Else a sync that has failed for another reason, with nothing to ask about, would leave a run that succeeded.
    synced = EmptyOperator(task_id="synced", trigger_rule="one_success")

    sync >> agreed >> ask >> [*decisions, EmptyOperator(task_id="later")]
    decisions >> sync_again
    [sync, sync_again] >> synced
