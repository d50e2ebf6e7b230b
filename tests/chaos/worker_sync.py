"""The app incremental_sync whose workers apply small epochs, too, so that there are workers to kill.

python tests/chaos/worker_sync.py JOBSPEC.json
"""

import sys
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__" and __package__ in (None, ""):  # run as a file: the packages are beside its folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from airflow_provider_dm.engine.sync import run_sync
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from spark_apps.app import main
from spark_apps.incremental_sync import work

sized = run_sync.sized


def on_workers(size: EpochSize | None, source: SyncSource, plan: SyncPlan) -> EpochSize:
    return replace(sized(size, source, plan), in_driver=0, warm=True)


if __name__ == "__main__":
    run_sync.sized = on_workers
    sys.exit(main(work))
