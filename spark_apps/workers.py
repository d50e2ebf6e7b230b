"""The daemon from which Spark's Python workers are forked; it has imported the modules that their tasks need.

    python -m spark_apps.workers pyspark.worker         as Spark calls it (`spark.python.daemon.module`)

With pyspark's own daemon, each worker would import the engine and load the kernels, which takes a second of CPU and 100
MB; forked workers share the imported modules. It is used for workers of this machine only: on a cluster the engine is
in an archive that comes with the app, after the daemon has started.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

VARIABLE: Final = "DM_WORKER_IMPORTS"
"""Environment variable: names of modules, separated by commas; `module:function` is also called, without arguments."""
TASKS: Final = "pyspark.worker"
"""The module that Spark names for tasks."""
ALWAYS: Final = (TASKS, "spark_apps.runner")

_KERNELS: Final = "airflow_provider_dm.engine.binlog.kernels.build:preload"
_SYNC_TASKS: Final = "airflow_provider_dm.engine.sync.write.tasks"
WORKER_IMPORTS: Final[Mapping[str, Sequence[str]]] = {
    "full_migration": ("airflow_provider_dm.engine.copy.read_round", _SYNC_TASKS, _KERNELS),
    "incremental_sync": (_SYNC_TASKS, _KERNELS),
    "verify": ("airflow_provider_dm.engine.verify.piece",),
}
"""The modules that an app's tasks need, by app."""


def prepare(names: Sequence[str]) -> None:
    """Import the modules that tasks need. A failed import is only logged here: the task that needs the module reports
    it.

    No thread may run in a process that forks, so numpy's threads for linear algebra are disabled.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # imports make no garbage
    for name in names:
        module, _, function = name.partition(":")
        try:
            imported = importlib.import_module(module)
            if function:
                getattr(imported, function)()
        except Exception:
            logging.getLogger(__name__).warning(
                "%s could not be imported in advance; each worker imports it", name, exc_info=True
            )
    gc.freeze()
    gc.enable()


def main() -> None:
    """Prepare, then run pyspark's daemon."""
    from pyspark import daemon

    if sys.argv[1:] == [TASKS]:  # other daemons only plan the read of a data source
        prepare([*ALWAYS, *filter(None, os.environ.get(VARIABLE, "").split(","))])
    daemon.manager()


if __name__ == "__main__":
    main()
