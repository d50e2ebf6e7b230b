"""The comparison of every row: `spark-submit verify.py JOBSPEC.json`. This app runs engine/verify on Spark.

The exit code is 0 only if all tables are equal. Otherwise the run's error is DataDiffers; its result has the tables.
Result: see `engine.verify.verification.verify`.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

if __name__ == "__main__" and __package__ in (None, ""):  # run as a file: the packages are beside its folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    gc.disable()  # until `main` is called: imports make no garbage
    from spark_apps.runner import start_spark

    start_spark("verify")

from airflow_provider_dm.engine.verify.verification import failure, verify
from spark_apps.app import App, Outcome, main


def work(app: App) -> Outcome:
    """Compare both sides, and report the tables that differ."""
    runner = app.runner()
    app.report("verify", runner.progress)
    result = verify(app.spec, runner)
    return Outcome(result, failure=failure(result))


if __name__ == "__main__":
    sys.exit(main(work))
