"""The app incremental_sync, whose transactions are tried again for five seconds: a minute is a long wait for a test.

python tests/integration/sync/impatient_sync.py JOBSPEC.json
"""

import sys
from pathlib import Path
from typing import Any, Final, cast

if __name__ == "__main__" and __package__ in (None, ""):  # run as a file: the packages are beside its folder
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from airflow_provider_dm.engine.downstream.session import run_transaction

SECONDS: Final = 5.0
APP: Final = "incremental_sync"


def lose_patience() -> None:
    """Do it in this process: the driver, or the one that workers are forked from."""
    cast(Any, run_transaction).__kwdefaults__["retry_seconds"] = SECONDS


if __name__ == "__main__":
    from spark_apps import app, workers
    from spark_apps.incremental_sync import work

    lose_patience()
    imports = cast("dict[str, tuple[str, ...]]", workers.WORKER_IMPORTS)
    imports[APP] = (*imports[APP], "tests.integration.sync.impatient_sync:lose_patience")
    sys.exit(app.main(work))
