"""Detection of the end of a process of this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_dm.engine import processes
from airflow_provider_dm.engine.processes import has_ended, this_process

SHOW = "from airflow_provider_dm.engine.processes import this_process; print(this_process(), flush=True); input()"


def test_a_process_runs_until_it_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", SHOW], stdin=-1, stdout=-1, text=True) as child:
        assert child.stdout is not None
        shown = child.stdout.readline().strip()
        assert not has_ended(shown)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(shown)  # a zombie, whose parent has not read its exit code
    assert has_ended(shown)


def test_a_reused_pid_is_another_process() -> None:
    machine, pid, born = this_process().rsplit(" ", 2)
    assert not has_ended(f"{machine} {pid} {born}")
    assert has_ended(f"{machine} {pid} {int(born) - 1}")


def test_a_process_of_unknown_state_has_not_ended() -> None:
    boot, namespace, _, born = this_process().split(" ")
    gone = 4194305  # above the largest pid of Linux
    assert has_ended(f"{boot} {namespace} {gone} {born}")
    assert not has_ended(f"{boot} pid:[1] {gone} {born}")  # a container's
    assert not has_ended(f"another {namespace} {gone} {born}")
    assert not has_ended("")


def test_nothing_is_known_where_proc_shows_the_processes_of_another_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `unshare --pid` without a /proc of its own: the process under our pid there is another one."""
    known = this_process()
    shown = tmp_path / "self"
    shown.symlink_to(str(os.getpid() + 1))
    monkeypatch.setattr(processes, "_SELF", shown)
    assert this_process() == ""
    assert not has_ended(f"{known}0")  # another start time under our pid
