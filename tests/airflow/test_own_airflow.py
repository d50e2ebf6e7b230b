"""The Airflow of our own leaves nothing behind, also when its harness is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from testbed import airflow_keeper
from tests.airflow.support import wait_for

SCRIPT = """
import sys, time
from pathlib import Path
from testbed.airflow import AirflowSpec, start_airflow
home = Path(sys.argv[1])
start_airflow(AirflowSpec(home=home, dags=home, components=("api-server",)))
print("ready", flush=True)
time.sleep(600)
"""


def test_a_test_airflow_ends_with_its_test_process(tmp_path: Path) -> None:
    home = tmp_path / "home"
    paths = os.pathsep.join(path for path in sys.path if path)
    harness = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(home)],
        stdout=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        | {"PYTHONPATH": paths},
    )
    assert harness.stdout is not None
    assert harness.stdout.readline() == "ready\n"
    assert airflow_keeper.processes_of(home)
    assert (home / "airflow.cfg").stat().st_mode & 0o077 == 0

    harness.send_signal(signal.SIGKILL)
    harness.wait()

    wait_for(lambda: not airflow_keeper.processes_of(home))
    harness.stdout.close()
