"""Decoding and folding with two workers beside one: the task that Spark runs for each range of a large epoch.

Each worker is a process that takes the next range of 8 MiB of a finished binlog file: it verifies the checksums,
decodes the range, folds its changes by key and packs them for the exchange (`FoldRange`). A pass over the file, which
loads the kernels in each worker, is not timed; the pass after it is. The logs are those of `sync`.

What is not in it: Spark, the exchange of the packed rows, and the target.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig
from airflow_provider_dm.engine.downstream.frontier import EpochRange
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.subtask import BUCKETS
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.mapping import map_table
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import SourcePart, target_part
from airflow_provider_dm.engine.sync.write.concurrency import WriteConcurrency
from airflow_provider_dm.engine.sync.write.tasks import EpochJob, FoldRange
from testbed import Server, ServerSpec, running_servers
from tests.benchmarks import sync
from tests.benchmarks.decode import planned
from tests.benchmarks.harness import Case, Run, Side, arguments, measure, publish
from tests.benchmarks.processes import peak_rss_of
from tests.benchmarks.workload import SCHEMA, BinlogFile

CASES: Final = ("oltp", "oltp_uniform", "bulk")
GROUPS: Final = 2
NOWHERE: Final = Endpoint("nowhere", "127.0.0.1", 1, "nobody")


@dataclass(frozen=True)
class Plan:
    """A plan that needs no sharing: every worker makes its own."""

    value: SyncPlan


def task_of(file: BinlogFile) -> FoldRange:
    rules = BlockAllowRules.from_config(
        BlockAllowConfig(do_dbs=(SCHEMA,)), case_sensitive=True, meta_schema=sync.META_SCHEMA
    )
    parts = target_part(map_table(file.table, file.table))
    plan = SyncPlan((SourcePart(file.table, 0, None),), (parts,), BUCKETS, rules)
    step = EpochRange(Fence(SubtaskRef(sync.META_SCHEMA, "scale", "bench"), 1), "", "")
    return FoldRange(EpochJob(Plan(plan), NOWHERE, NOWHERE, step, WriteConcurrency()), GROUPS)


_task: FoldRange


def begin_worker(file: BinlogFile) -> None:
    global _task
    _task = task_of(file)


def fold(one: ByteRange) -> tuple[float, int]:
    """CPU seconds, and the worker."""
    began = time.process_time()
    assert all(_task(one))
    return time.process_time() - began, os.getpid()


def fold_all(file: BinlogFile, workers: int) -> Run:
    ranges = planned(file).ranges
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, begin_worker, (file,)) as pool:
        list(pool.map(fold, ranges))
        began = time.perf_counter()
        done = list(pool.map(fold, ranges))
        seconds = time.perf_counter() - began
        memory = sum(peak_rss_of(worker) for worker in {worker for _, worker in done})
    return Run(file.rows, seconds, sum(cpu for cpu, _ in done), memory)


def cases(source: Server, options: argparse.Namespace) -> Sequence[Case]:
    files = {name: sync.log_file(source, name, options.size)[0] for name in options.cases}
    return [
        Case(
            name,
            "changes",
            Side("two workers", partial(fold_all, file, 2)),
            Side("one worker", partial(fold_all, file, 1)),
        )
        for name, file in files.items()
    ]


def main() -> None:
    options = arguments(__doc__, repeats=5, cases=CASES)
    with running_servers([ServerSpec("source", "mariadb", sync.OPTIONS["mariadb"])]) as servers:
        outcomes = measure(cases(servers[0], options), options.repeats, servers)
        publish("scale", outcomes, options, servers)


if __name__ == "__main__":
    # Children find this module by its name, wherever `python -m` was called.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
