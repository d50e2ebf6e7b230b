"""A relay process as its launcher sees it, and its size."""

import json
import subprocess
import sys
from pathlib import Path

from airflow_provider_dm.engine.relay.process import end_of_log
from airflow_provider_dm.engine.reported import MARK, reported_in

HEAVY = ("airflow", "numba", "numpy", "pandas", "pyarrow", "pyspark")


def test_a_relay_imports_nothing_heavy() -> None:
    code = "import sys, airflow_provider_dm.engine.relay.child; print([m for m in sys.argv[1:] if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code, *HEAVY], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_last_error_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "relay.log"
    assert reported_in(end_of_log(log)) is None
    log.write_text(f'{MARK}{{"ErrCode": "DM-1"}}\nsomething\n{MARK}{json.dumps({"ErrCode": "DM-2"})}\nmore\n')
    found = reported_in(end_of_log(log))
    assert found is not None
    assert found.code == "DM-2"
    assert reported_in(end_of_log(log, log.stat().st_size)) is None  # what is before is of its predecessors
