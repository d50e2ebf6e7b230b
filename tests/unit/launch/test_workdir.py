"""Work directories: private, inside their root, one runner for each task."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.launch.errors import TaskRunsAlready
from airflow_provider_dm.launch.workdir import TaskDir, open_run_log, private_directory, work_root


def test_the_root_is_the_argument_the_environments_or_xdgs(tmp_path: Path) -> None:
    environ = {"DM_WORK_DIR": "/one", "XDG_STATE_HOME": "/two", "HOME": "/three"}

    assert work_root(tmp_path, environ) == tmp_path
    assert work_root(None, environ) == Path("/one")
    assert work_root(None, {"XDG_STATE_HOME": "/two"}) == Path("/two/airflow-provider-dm")
    assert work_root(None, {"HOME": "/three"}) == Path("/three/.local/state/airflow-provider-dm")


def test_a_run_directory_is_private_also_when_the_umask_is_not(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        run = TaskDir.of("shop", tmp_path).run("shop.verify.1")
    finally:
        os.umask(before)

    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "tasks").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["../../etc", "..", ".", "a/b", "täsk"])
def test_no_task_name_leads_out_of_the_root(name: str, tmp_path: Path) -> None:
    assert TaskDir.of(name, tmp_path).path.resolve().parent == (tmp_path / "tasks").resolve()


def test_a_link_is_no_work_directory(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(InvalidInput, match="is a link"):
        private_directory(tmp_path / "link")


def test_a_second_process_cannot_run_the_same_task(tmp_path: Path) -> None:
    task = TaskDir.of("shop", tmp_path)
    hold = (
        "import sys, pathlib\n"
        "from airflow_provider_dm.launch.workdir import TaskDir\n"
        "with TaskDir.of('shop', pathlib.Path(sys.argv[1])).locked():\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"

    with pytest.raises(TaskRunsAlready, match=f"process {holder.pid}"), task.locked():
        pass
    holder.kill()
    holder.communicate()

    with task.locked():
        pass


def test_the_newest_runs_are_kept_and_those_under_way(tmp_path: Path) -> None:
    task = TaskDir.of("shop", tmp_path)
    for number in range(4):
        run = task.run(f"run-{number}")
        with open_run_log(run):
            pass
        os.utime(run, (number, number))
    with open_run_log(task.run("run-0")):
        task.forget_old_runs(kept=2)
    assert sorted(run.name for run in (task.path / "runs").iterdir()) == ["run-0", "run-2", "run-3"]
    task.forget_old_runs(kept=1)
    assert [run.name for run in (task.path / "runs").iterdir()] == ["run-3"]
