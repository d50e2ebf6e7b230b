"""The process that Spark's Python workers are forked from, which has imported what their tasks need.

    python -m spark_apps.workers pyspark.worker         as Spark calls it (`spark.python.daemon.module`)

pyspark's own imports nothing, so that each worker imports the engine and loads the kernels, and so does each that takes
the place of a dead one: a second of processor time and a hundred MB, which workers share so. For workers of this
machine only: on a cluster the engine comes with the app, in an archive that this process would not know of.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Final

VARIABLE: Final = "DM_WORKER_IMPORTS"
"""Environment: names of modules, apart by commas; `module:function` is called as well, without arguments."""
TASKS: Final = "pyspark.worker"
"""What Spark calls for tasks."""
ALWAYS: Final = (TASKS, "spark_apps.runner")


def prepare(names: Sequence[str]) -> None:
    """Import what tasks need. A failure here will occur in a task again, which reports it.

    No thread may run where workers are forked, and numpy starts some for linear algebra, of which we do none.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # what an import makes is no garbage
    for name in names:
        module, _, function = name.partition(":")
        try:
            imported = importlib.import_module(module)
            if function:
                getattr(imported, function)()
        except Exception:
            logging.getLogger(__name__).warning("%s is left to the workers", name, exc_info=True)
    gc.freeze()
    gc.enable()


def main() -> None:
    """Prepare, then do as pyspark's daemon does."""
    from pyspark import daemon

    if sys.argv[1:] == [TASKS]:  # others plan how a data source is read, once
        prepare([*ALWAYS, *filter(None, os.environ.get(VARIABLE, "").split(","))])
    daemon.manager()


if __name__ == "__main__":
    main()
