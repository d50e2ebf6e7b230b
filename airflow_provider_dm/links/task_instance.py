"""The identity of an Airflow task instance as a holder of leases and runs, and its address in Airflow's UI.

    airflow:DAG/RUN/TASK        airflow:DAG/RUN/TASK[3] for the mapped index 3

All attempts of a task instance have one identity. It imports nothing of Airflow: the page reads identities as well.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

LONGEST_IDENTITY: Final = 500
_PREFIX: Final = "airflow:"
_IDENTITY: Final = re.compile(r"airflow:(?P<dag>[^/]+)/(?P<run>.+)/(?P<task>[^/\[]+)(?:\[(?P<index>\d+)\])?")


@dataclass(frozen=True)
class TaskInstanceRef:
    """One task instance of Airflow. `map_index` is -1 for a task that is not mapped."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    @property
    def identity(self) -> str:
        """Return the holder's identity; one that is too long ends with its digest.

        >>> TaskInstanceRef("shop", "manual__1", "group.sync", 2).identity
        'airflow:shop/manual__1/group.sync[2]'
        """
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        text = f"{_PREFIX}{self.dag_id}/{self.run_id}/{self.task_id}{mapped}"
        if len(text) <= LONGEST_IDENTITY:
            return text
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{text[: LONGEST_IDENTITY - 17]}:{digest}"

    @property
    def path(self) -> str:
        """Return the path of its page in Airflow's UI.

        >>> TaskInstanceRef("shop", "manual__1+00:00", "sync", 2).path
        '/dags/shop/runs/manual__1%2B00%3A00/tasks/sync/mapped/2'
        """
        dag, run, task = (quote(part, safe="") for part in (self.dag_id, self.run_id, self.task_id))
        mapped = f"/mapped/{self.map_index}" if self.map_index >= 0 else ""
        return f"/dags/{dag}/runs/{run}/tasks/{task}{mapped}"


def dag_of(identity: str) -> str | None:
    """Return the DAG that an identity names, also in a text that was cut; None for other holders.

    >>> dag_of("airflow:shop/manual__1/group.sy"), dag_of("dmctl:host:4711")
    ('shop', None)
    """
    return identity.removeprefix(_PREFIX).partition("/")[0] if identity.startswith(_PREFIX) else None


def task_instance_of(identity: str) -> TaskInstanceRef | None:
    """Return the task instance that an identity names; None for other holders, and for a text that was cut.

    >>> task_instance_of("airflow:shop/manual__1/group.sync[2]")
    TaskInstanceRef(dag_id='shop', run_id='manual__1', task_id='group.sync', map_index=2)
    >>> task_instance_of("dmctl:host:4711")
    """
    match = _IDENTITY.fullmatch(identity)
    if match is None or len(identity) >= LONGEST_IDENTITY:
        return None
    index = match["index"]
    return TaskInstanceRef(match["dag"], match["run"], match["task"], -1 if index is None else int(index))
