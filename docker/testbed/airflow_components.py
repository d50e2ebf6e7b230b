"""The process from which Airflow's components are forked, after it has imported what they share.

    python -P airflow_components.py '{"scheduler": ["scheduler", "--skip-serve-logs"], …}'

It prints the pid of each as JSON. They run as if each had been started by the command `airflow`, in a session of its
own, and log to `<AIRFLOW_HOME>/<component>.log`: four interpreters that import Airflow and build its API would take
twenty seconds of a processor. This process waits for all of them."""

import gc
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final

SHARED: Final = (
    "airflow.__main__",
    "airflow.cli.commands.api_server_command",
    "airflow.cli.commands.dag_processor_command",
    "airflow.cli.commands.scheduler_command",
    "airflow.cli.commands.triggerer_command",
    "airflow.dag_processing.manager",
    "airflow.executors.local_executor",
    "airflow.jobs.scheduler_job_runner",
    "airflow.sdk.execution_time.task_runner",
)
API_DATABASE: Final = "DM_API_DATABASE"
"""Environment variable: the API server's URL of the database."""


def main() -> None:
    """Fork the components; return in each of them to its end, and in this process when all have ended."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Airflow's warnings are no part of the answer
    gc.disable()
    for module in SHARED:
        import_module(module)
    import_module("airflow.api_fastapi.execution_api.app").InProcessExecutionAPI().app  # noqa: B018 (it is built)
    gc.freeze()
    gc.enable()
    pids = {}
    for name, words in json.loads(sys.argv[1]).items():
        pids[name] = os.fork()
        if pids[name] == 0:
            answer.close()
            _be(name, words)
            return
    with answer:
        answer.write(json.dumps(pids))
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _be(name: str, words: Sequence[str]) -> None:
    os.setsid()
    with Path(os.environ["AIRFLOW_HOME"], f"{name}.log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    if name == "api-server":
        settings = import_module("airflow.settings")
        os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = os.environ[API_DATABASE]
        settings.configure_vars()
        settings.reconfigure_orm()
    sys.argv[:] = ["airflow", *words]
    import_module("airflow.__main__").main()


if __name__ == "__main__":
    main()
