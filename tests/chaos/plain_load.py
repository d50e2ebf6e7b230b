"""The app full_migration without Spark, as `plain_sync` is the app incremental_sync.

python tests/chaos/plain_load.py JOBSPEC.json
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__" and __package__ in (None, ""):  # run as a file: the packages are beside its folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from airflow_provider_dm.engine.copy import page, source_load
from spark_apps.app import App, main
from spark_apps.full_migration import work
from tests.chaos.plain_sync import PlainApp


def work_plainly(app: App) -> Any:
    app.__class__ = PlainApp
    page.FIRST_ROWS = page.MOST_ROWS = 50  # type: ignore[misc]  # so that tables of a few hundred rows have many pages
    source_load.ROUND_SECONDS = source_load.SHORT_ROUND_SECONDS = 0.5  # type: ignore[misc]  # and the log continues in between
    return work(app)


def run(arguments: Sequence[str]) -> int:
    """Run the app; return its exit code."""
    return main(work_plainly, arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
