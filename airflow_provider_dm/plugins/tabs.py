"""The tasks and sources that the page shows, by its address: of a task, of sources, or a tab of Airflow.

The tab of a DAG run or of a task instance shows the tasks and sources of the links "DM page" of its task instances:
operators and sensors push these links as XComs when their work begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final
from urllib.parse import parse_qs, urlsplit

from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from fastapi import Query

from airflow_provider_dm.links.dm_page import DM_PAGE_KEY
from airflow_provider_dm.plugins.documents import Selection

_INDEX: Final = re.compile(r"\d{1,9}", re.ASCII)


def selection_of_request(
    task: Annotated[Sequence[str], Query()] = (),
    source: Annotated[Sequence[str], Query()] = (),
    dag_id: str | None = None,
    run_id: str | None = None,
    task_id: str | None = None,
    map_index: str = "",
) -> Selection | None:
    """Return the selection of a request for the page; None: everything.

    `map_index`: as Airflow writes it into the address of a tab; no number for a task that is not mapped.
    """
    if task or source:
        return Selection(task, source)
    if not dag_id or not run_id:
        return None
    index = None if task_id is None else int(map_index) if _INDEX.fullmatch(map_index) else -1
    pushed = XComModel.get_many(run_id=run_id, key=DM_PAGE_KEY, dag_ids=dag_id, task_ids=task_id, map_indexes=index)
    with create_session() as session:
        return selection_of_links([XComModel.deserialize_value(value) for value in session.scalars(pushed)])


def selection_of_links(links: Iterable[Any]) -> Selection:
    """Return the tasks and sources of all these links. Values that are not texts are ignored.

    >>> selection_of_links(["http://airflow/plugin/dm/dm/?task=shop", "/plugin/dm/dm/?source=s+1&source=s2", None])
    Selection(tasks=['shop'], sources=['s 1', 's2'])
    """
    parameters = [parse_qs(urlsplit(link).query) for link in links if isinstance(link, str)]
    tasks, sources = ([value for one in parameters for value in one.get(name, [])] for name in ("task", "source"))
    return Selection(list(dict.fromkeys(tasks)), list(dict.fromkeys(sources)))
