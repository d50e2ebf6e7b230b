"""What an address of the page asks for: a task, a source, or the tab of a DAG run or of a task instance.

A tab shows what the links "DM page" of its task instances lead to: operators and sensors push these addresses as XComs
when their work begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from airflow.models.xcom import XComModel
from airflow.utils.session import create_session

from airflow_provider_dm.links.dm_page import DM_PAGE_KEY
from airflow_provider_dm.plugins.documents import Asked

_INDEX: Final = re.compile(r"\d{1,9}", re.ASCII)


def asked_of(
    task: str | None = None,
    source: str | None = None,
    dag_id: str | None = None,
    run_id: str | None = None,
    task_id: str | None = None,
    map_index: str = "",
) -> Asked | None:
    """Return what is asked for; None: everything.

    `map_index`: as Airflow writes it into the address of a tab; no number for a task that is not mapped.
    """
    if task is not None or source is not None:
        return Asked([task] if task else [], [source] if source else [])
    if not dag_id or not run_id:
        return None
    index = None if task_id is None else int(map_index) if _INDEX.fullmatch(map_index) else -1
    wanted = XComModel.get_many(run_id=run_id, key=DM_PAGE_KEY, dag_ids=dag_id, task_ids=task_id, map_indexes=index)
    with create_session() as session:
        return asked_by([XComModel.deserialize_value(one) for one in session.scalars(wanted)])


def asked_by(addresses: Iterable[Any]) -> Asked:
    """Return what addresses of the page ask for together.

    >>> asked_by(["http://airflow/plugin/dm/dm/?task=shop", "/plugin/dm/dm/?source=s+1", "/plugin/dm/dm/", None])
    Asked(tasks=['shop'], sources=['s 1'])
    """
    parameters = [parse_qs(urlsplit(one).query) for one in addresses if isinstance(one, str)]
    tasks, sources = ([value for one in parameters for value in one.get(name, [])] for name in ("task", "source"))
    return Asked(list(dict.fromkeys(tasks)), list(dict.fromkeys(sources)))
