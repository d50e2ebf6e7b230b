"""The command line in this process: verbs, answers, exit codes."""

import argparse
import contextlib
import gc
import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.cli.main import _imported, main, parser
from airflow_provider_dm.cli.parsing import options_after_verb
from airflow_provider_dm.cli.unsupported_verbs import UNSUPPORTED
from airflow_provider_dm.cli.verbs import VERBS
from airflow_provider_dm.cli.verbs import WITH_ACTIONS as WITH_VERBS
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location

WITH_ACTIONS = {
    "meta": "migrate",
    "binlog": "skip",
    "binlog-schema": "list",
    "operate-source": "create",
    "config": "import",
}
"""Verbs that have verbs of their own, and one of these."""


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (line,) = capsys.readouterr().out.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_every_verb_has_a_help_that_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for verb, (_, summary, _) in VERBS.items():
        words = [verb, *([WITH_ACTIONS[verb]] if verb in WITH_ACTIONS else []), "--help"]
        with pytest.raises(SystemExit) as ended:
            parser(words).parse_args(words)
        assert ended.value.code == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "--json" in out
        assert summary in out or verb in WITH_ACTIONS


@pytest.mark.parametrize("example", [one for verb in VERBS.values() for one in verb.examples])
def test_every_example_of_a_help_is_a_command_line_that_is_understood(example: str) -> None:
    words = shlex.split(example)
    assert parser(words).parse_args(words).verb == words[0]


def test_examples_are_in_the_help_of_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for verb, (room, _, examples) in VERBS.items():
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        output = capsys.readouterr().out
        assert [one for one in examples if f"  dmctl {one}\n" not in output + "\n"] == []
        assert examples or room == "unsupported_verbs"


@pytest.mark.parametrize(
    "words",
    [
        "query-status shop -s mysql-01 --json --work-dir DIR",
        "--json --work-dir DIR query-status -s mysql-01 shop",
        "--work-dir DIR -s mysql-01 query-status --json shop",
        "-s mysql-01 --json query-status --work-dir DIR shop",
        "--json --work-dir DIR binlog list shop",
        "binlog --json --work-dir DIR list -s run shop",
        "--json meta --work-dir DIR check",
    ],
)
def test_options_may_be_on_either_side_of_verb_and_action(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.replace("DIR", str(tmp_path)).split()) == 1
    found = answer(capsys)
    assert found["result"] is False
    assert "query-status" not in words or found["msg"] == "task shop has no source or not exist"


def test_a_value_may_be_the_name_of_a_verb() -> None:
    assert options_after_verb(["-s", "run", "query-status"], VERBS, WITH_VERBS) == ["query-status", "-s", "run"]


def test_a_positional_word_may_follow_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    found = parser(["binlog-schema"]).parse_args(["binlog-schema", "list", "task.yaml", "-s", "a", "shop", "orders"])
    assert (found.database, found.table, found.sources) == ("shop", "orders", ["a"])


def test_a_user_at_a_terminal_gets_tables_and_a_script_json(meta_url: str, store: MetaStore) -> None:
    store.put_subtask("shop", "mysql-01", unit=Unit.SYNC, stage=Stage.PAUSED, applied=Location("bin.000005", 916))
    words = [sys.executable, "-m", "airflow_provider_dm.cli.main", "query-status", "--meta-url", meta_url]

    piped = subprocess.run([*words, "shop"], check=True, capture_output=True, text=True)
    shown, of_a_task = on_a_terminal(words), on_a_terminal([*words, "shop"])

    assert json.loads(piped.stdout)["sources"][0]["subTaskStatus"][0]["name"] == "shop"
    assert shown.split() == ["task", "status", "sources", "shop", "Paused", "mysql-01"]
    assert of_a_task.splitlines()[1].split()[:3] == ["mysql-01", "shop", "Sync"]
    assert "(bin.000005, 916)" in of_a_task
    assert "{" not in shown + of_a_task


def on_a_terminal(words: list[str]) -> str:
    """Return what a command prints on stdout where that is a terminal, without colours."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "150", "TERM": "dumb"}
    process = subprocess.Popen(words, stdout=theirs, stderr=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    found = b""
    with open(ours, "rb", buffering=0) as terminal:
        with contextlib.suppress(OSError):  # Linux says so that the other side is closed
            while read := terminal.read(65536):
                found += read
    assert process.wait() == 0
    return found.decode().replace("\r", "")


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_the_help_without_a_verb_has_the_exit_codes(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)

    assert ended.value.code == 0
    assert "4 source and target differ" in " ".join(capsys.readouterr().out.split())


def test_every_module_adds_its_listed_verbs() -> None:
    for verb in VERBS:
        known = parser([verb])._subparsers
        assert known is not None
        (action,) = [one for one in known._actions if isinstance(one, argparse._SubParsersAction)]
        assert list(action.choices) == list(VERBS)
        added = [name for name, one in action.choices.items() if "--json" in one.format_help()]
        here = [name for name, one in VERBS.items() if one.module == VERBS[verb].module]
        assert added == [name for name in here if name not in WITH_ACTIONS]


@pytest.mark.parametrize("verb", sorted(UNSUPPORTED))
def test_a_missing_verb_of_dm_is_reported_with_any_arguments(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "task", "-s", "mysql-replica-01", "--filename=x"]) == 1

    printed = capsys.readouterr()
    assert f"error [DM-1900 internal] dmctl {verb} is not supported yet" in printed.err
    assert UNSUPPORTED[verb] in printed.err
    assert json.loads(printed.out)["result"] is False


@pytest.mark.parametrize("words", [["check-task", "gone.yaml"], ["run", "gone.yaml", "--json"]])
def test_a_refusal_is_dms_document_for_its_verbs_and_with_json(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1

    document = json.loads(capsys.readouterr().out)
    assert list(document)[:2] == ["result", "msg"]
    assert document["result"] is False
    assert "gone.yaml" in str(document["msg"])


def test_the_default_metadata_db_is_created_as_private(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query-status", "--work-dir", str(tmp_path / "work"), "--json"]) == 0

    assert answer(capsys) == {"result": True, "msg": "", "tasks": []}
    assert (tmp_path / "work" / "meta.db").stat().st_mode & 0o777 == 0o600


def test_a_named_metadata_db_is_not_migrated_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--meta-url", f"sqlite:///{tmp_path / 'named.db'}"]

    assert main(["query-status", *named]) == 1
    assert "dmctl meta migrate" in capsys.readouterr().err
    assert main(["meta", "check", *named]) == 1
    assert main(["meta", "migrate", *named]) == 0
    assert main(["meta", "check", *named]) == 0
    assert main(["query-status", *named]) == 0


def test_the_command_line_imports_neither_airflow_nor_spark() -> None:
    rooms = {verb.module for verb in VERBS.values()}
    code = "".join(f"import airflow_provider_dm.cli.{room}\n" for room in rooms)

    assert not imported_by(code) & {"airflow", "pyspark", "numba", "numpy", "pyarrow"}


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["list-member"]])
def test_modules_of_a_verb_are_imported_for_that_verb_only(words: list[str]) -> None:
    code = f"from airflow_provider_dm.cli.main import main\ntry: main({words})\nexcept SystemExit: pass\n"

    heavy = {"sqlalchemy", "alembic", "pydantic", "pymysql", "numpy", "yaml", "cryptography"}
    assert not imported_by(code) & heavy


def test_the_garbage_collector_runs_again_behind_an_import() -> None:
    with pytest.raises(ModuleNotFoundError):
        _imported("no_such_room")

    assert gc.isenabled()


def test_a_metadata_db_that_is_up_to_date_needs_no_migrations(meta_url: str) -> None:

    assert "alembic" not in imported_by(
        f"from airflow_provider_dm.cli.main import main\nmain(['meta', 'migrate', '--meta-url', {meta_url!r}])\n"
    )


def imported_by(code: str) -> set[str]:
    """The packages that are there after this code ran in a process of its own."""
    modules = "import sys\nprint('\\n' + ' '.join(sys.modules))"
    kept = {name: os.environ[name] for name in ("PYTHONPYCACHEPREFIX",) if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", code + modules],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path), **kept},
    )
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_a_spark_setting_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "task.yaml", "--spark-conf", "foo"]) == 2

    out, err = capsys.readouterr()
    assert (out, "'foo' is not KEY=VALUE" in err) == ("", True), "our own verbs answer in text"


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("start-task", "the following arguments are required"),
        ("binlog shout shop", "invalid choice: 'shout'"),
        ("shout", "invalid choice: 'shout'"),
        ("query-status --never", "unrecognized arguments: --never"),
        ("run --json", "the following arguments are required"),
        ("run task.yaml --json --until tomorrow", "FILE:POSITION"),
    ],
)
def test_a_wrong_command_line_is_answered_as_any_other_refusal(
    capsys: pytest.CaptureFixture[str], words: str, wrong: str
) -> None:
    assert main(words.split()) == 2

    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert list(answer) == ["result", "msg"]
    assert answer["result"] is False
    assert wrong in answer["msg"]
    assert err.startswith("usage: dmctl")
    assert answer["msg"] in err
