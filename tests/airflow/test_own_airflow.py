"""What runs with the home of a test's Airflow ends with the test, also when that is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from testbed import airflow_keeper
from tests.airflow.support import wait_for

SCRIPT = """
import os, subprocess, sys, time
from pathlib import Path
from testbed import airflow_keeper
from testbed.watched import watch
watch(Path(sys.argv[1]), airflow_keeper)
subprocess.Popen(["sleep", "600"], env={**os.environ, "AIRFLOW_HOME": sys.argv[1]}, start_new_session=True)
print("ready", flush=True)
time.sleep(600)
"""


def test_a_test_airflow_ends_with_its_test_process(tmp_path: Path) -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    harness = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert harness.stdout is not None
    assert harness.stdout.readline() == "ready\n"
    assert airflow_keeper.processes_of(tmp_path)

    harness.send_signal(signal.SIGKILL)
    harness.wait()

    wait_for(lambda: not airflow_keeper.processes_of(tmp_path))
    harness.stdout.close()
