"""Makes the records in this folder: `python -m tests.integration.upgrade.record` in a checkout of the older release.

Copy this folder into that checkout first (its own tests/ helpers are used). The states are made by the release's own
code: a copy that is stopped after a few pages, and a sync whose process dies when half an epoch is written.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import copier, page
from airflow_provider_dm.engine.copy import migration as migration_module
from airflow_provider_dm.engine.copy.migration import Stopped
from airflow_provider_dm.engine.sync.runner import TaskBug
from airflow_provider_dm.engine.sync.start import opening as start_module
from airflow_provider_dm.engine.sync.write import apply
from airflow_provider_dm.engine.target import frontier
from airflow_provider_dm.engine.target.frontier import Act
from airflow_provider_dm.engine.target.session import target_connection
from airflow_provider_dm.engine.target.subtask import BUCKETS
from testbed import Server, ServerSpec, running_servers
from tests.integration.copy.migrations import Migration, endpoint
from tests.integration.upgrade import world

FOLDER = Path(__file__).parent


class Died(Exception):
    """The process is killed here."""


def mid_copy(source: Server, target: Server, folder: Path) -> dict[str, Any]:
    task = world.migration(source, target, folder)
    rounds = iter([False, False])
    with world.syncing(task, folder), pytest.MonkeyPatch.context() as change:
        change.setattr(copier, "FIRST_ROWS", 5)
        change.setattr(page, "MOST_ROWS", 5)
        change.setattr(migration_module, "ROUND_SECONDS", 0.0)
        start = world.place(source)
        outcome = task.go(stop=lambda: next(rounds, True))
    assert isinstance(outcome, Stopped), outcome
    record = world.dump(target, {"start": start})
    assert 0 < len(record["rows"][f"{world.SCHEMA}.o"]) < 2 * world.ROWS
    return record


def mid_sync(source: Server, target: Server, folder: Path) -> dict[str, Any]:
    names = {}
    task = world.migration(source, target, folder)
    with world.syncing(task, folder) as syncs:
        names["start"] = world.place(source)
        task.finish()
        world.write(source, world.BEFORE)
        assert syncs.run()
        names["lo"] = world.place(source)
        world.write(source, world.EPOCH)
        names["hi"] = world.place(source)
        with _dying_in_the_middle(), suppress(TaskBug):  # which is what a death in a task is to the driver
            syncs.run()
    record = world.dump(target, names) | {"plan": _plan_text(task, target, names["start"].sort_key)}
    (subtask,) = record["rows"][f"{world.META_SCHEMA}.dm_subtask"]
    assert subtask["plan"] == world.fingerprint(record, names)
    subtask["plan"] = "@plan@"
    stands = {row["position"] for row in record["rows"][f"{world.META_SCHEMA}.dm_frontier"]}
    assert stands == {"@lo@", "@hi@"}, stands
    return record


def _plan_text(task: Migration, target: Server, start: str) -> str:
    """Return what the fingerprint in dm_subtask is the hash of. It holds the place of the keyless table's snapshot."""
    connection = target_connection(endpoint("target", target))
    make_plan: Any = start_module._plan  # of that release
    plan, _left_out = make_plan(connection, task.spec.task.subtask("one"), "one", BUCKETS)
    return repr((plan.sources, plan.targets, plan.buckets, plan.optional_columns())).replace(start, "@start@")


@contextmanager
def _dying_in_the_middle() -> Iterator[None]:
    """All of wave 1, then every bucket in a transaction of its own, until half of them are through."""
    real: Any = frontier.fenced_transaction
    done = itertools.count()

    def dying(transactions: Any, step: Any, act: Act, buckets: Any, body: Any) -> Any:
        if act is Act.ADVANCE and next(done) >= BUCKETS // 2:
            raise Died
        return real(transactions, step, act, buckets, body)

    with pytest.MonkeyPatch.context() as change:
        change.setattr(apply, "BATCH_ROWS", 0)
        change.setattr(apply, "fenced_transaction", dying)
        yield


def main() -> None:
    for name, make in (("left_mid_copy", mid_copy), ("left_mid_sync", mid_sync)):
        with (
            running_servers([ServerSpec("source", "mariadb"), ServerSpec("target", "mariadb")]) as (source, target),
            tempfile.TemporaryDirectory() as folder,
        ):
            source.sql(f"CREATE DATABASE {world.SCHEMA}")
            world.write(source, world.SETUP)
            record = make(source, target, Path(folder))
        (FOLDER / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
