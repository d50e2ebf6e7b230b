"""The app incremental_sync without Spark: tasks are threads of the driver, so it starts in a second.

    python tests/chaos/plain_sync.py JOBSPEC.json

For many rounds of what the tests do a few times with Spark. All else is the app's.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__" and __package__ in (None, ""):  # run as a file: the packages are beside its folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from airflow_provider_dm.engine.sync.runner import LocalRunner
from spark_apps.app import App, main
from spark_apps.incremental_sync import work


class PlainRunner(LocalRunner):
    """Threads for all sources; they need no lanes."""

    def lane(self, name: str) -> None:
        """Do nothing: each source has threads of its own."""


class PlainApp(App):
    """The app with such a runner."""

    def runner(self) -> Any:
        return PlainRunner(self.spec.task.mysql_instances[0].mydumper_thread or PlainRunner.slots)


def work_plainly(app: App) -> Any:
    app.__class__ = PlainApp
    return work(app)


def run(arguments: Sequence[str]) -> int:
    """Run the app; return its exit code."""
    return main(work_plainly, arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
