"""`airflow dm …`: the verbs of `dmctl`, on the metadata DB of the operators."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.cli.cli_parser import get_parser

from airflow_provider_dm.airflow_commands import META_URL, RELAY_DIR, WORK_DIR, defaults, get_dm_cli_commands
from airflow_provider_dm.cli.verbs import VERBS
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.hooks.metadata import DmMetadataHook
from tests.airflow.support import Define


@pytest.fixture(autouse=True)
def nothing_is_set() -> Iterator[None]:
    """A verb sets variables of its process, which ends with it; this process continues."""
    before = dict(os.environ)
    for name in (META_URL, WORK_DIR, RELAY_DIR):
        os.environ.pop(name, None)
    yield
    os.environ.clear()
    os.environ.update(before)


def airflow(*words: str) -> int:
    """Run a command of Airflow's program in this process; return its exit code."""
    arguments = get_parser().parse_args(words)
    with pytest.raises(SystemExit) as ended:
        arguments.func(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_every_verb_is_a_command_of_airflow() -> None:
    (group,) = get_dm_cli_commands()
    assert {one.name for one in group.subcommands} == set(VERBS)  # type: ignore[union-attr]


def test_it_shows_the_tasks_of_the_operators(work_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with DmMetadataHook().get_store() as store:
        store.put_subtask("shop", "mysql-01", unit=Unit.SYNC, stage=Stage.FINISHED)
    assert airflow("dm", "query-status", "--json") == 0
    assert json.loads(capsys.readouterr().out)["tasks"][0]["taskName"] == "shop"


def test_stdout_is_the_answer_alone_also_when_the_metadata_db_is_made(work_dir: Path) -> None:
    code = "from airflow.__main__ import main; main()"
    words = [sys.executable, "-c", code, "dm", "query-status", "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "AIRFLOW__CORE__UNIT_TEST_MODE"}
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    assert json.loads(done.stdout) == {"result": True, "msg": "", "tasks": []}
    assert (work_dir / "meta.db").exists()


def test_a_refusal_is_an_exit_code(work_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert airflow("dm", "query-status", "-s", "gone") == 1
    assert airflow("dm", "query-status", "--never") == 2
    assert "unrecognized arguments: --never" in capsys.readouterr().err


def test_the_help_is_that_of_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert airflow("dm", "pause-task", "--help") == 0
    assert "  airflow dm pause-task -s mysql-01\n" in capsys.readouterr().out


def test_the_names_given_by_a_user_take_precedence(
    work_dir: Path, connection: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection("dm_meta_default", conn_type="dm_meta", host="db1", login="dm", password="secret", schema="dm_meta")
    of_connection = "mysql+pymysql://dm:secret@db1/dm_meta"
    assert defaults(["meta", "check"], {}) == {"DM_WORK_DIR": str(work_dir), "DM_META_URL": of_connection}
    assert defaults(["meta", "check", "--meta-url=x"], {"DM_WORK_DIR": "/x"}) == {}
    assert defaults(["meta", "check"], {"DM_WORK_DIR": "/x", "DM_META_URL": "x"}) == {}

    monkeypatch.setenv("AIRFLOW__DM__RELAY_DIR", "/data/relay")
    known = {"DM_WORK_DIR": "/x", "DM_META_URL": "x"}
    assert defaults(["purge-relay"], known) == {"DM_RELAY_DIR": "/data/relay"}
    assert defaults(["purge-relay"], {**known, "DM_RELAY_DIR": "/y"}) == {}
