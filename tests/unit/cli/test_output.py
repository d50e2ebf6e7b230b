"""The output of commands: stdout and stderr."""

import json
import os
import sys

import pytest

from airflow_provider_dm.cli.output import Exit, Output, exit_code_of
from airflow_provider_dm.engine.errors import DmError, Reaction, ReportedError
from airflow_provider_dm.launch.errors import SparkAppFailed, TaskTakenOver
from airflow_provider_dm.launch.progress_report import LINE_EVERY_SECONDS

REPORTED = ReportedError(
    "DM-5002", "SchemaMismatch", "upstream", "columns differ. Mend them.", "Mend them.", Reaction.STOP
)


class Broken(DmError):
    """An error of this test."""

    thing: str

    code = "DM-0001"
    what = "{thing} is broken."
    hint = "Mend it."


def test_an_answer_is_one_json_object_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).answer({"verified": True}, "for people")

    assert json.loads(capsys.readouterr().out) == {"result": True, "msg": "", "verified": True}


def test_an_answer_that_nobody_reads_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader is `head`, for example. Else the command ends with a traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert Output(as_json=True).document({"result": True, "msg": ""}) is Exit.DONE
        Output(as_json=False).answer({}, "for people")


def test_an_error_is_a_paragraph_on_stderr_and_an_object_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).failure(Broken("[the] thing"), {"rows": 3})

    printed = capsys.readouterr()
    assert printed.err == "error [DM-0001 internal] [the] thing is broken. Mend it.\n"
    found = json.loads(printed.out)
    assert (found["result"], found["rows"], found["error"]["ErrCode"]) == (False, 3, "DM-0001")


def test_without_json_an_error_leaves_stdout_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).failure(Broken("it"))

    assert capsys.readouterr().out == ""


def test_progress_is_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    report_output = Output(as_json=True).report_output()
    report_output.progress("full migration: 30,000 rows")
    report_output.line("full migration: done")

    assert capsys.readouterr().err == "full migration: 30,000 rows\nfull migration: done\n"
    assert report_output.every_seconds == LINE_EVERY_SECONDS


def test_an_apps_error_has_its_own_code_and_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).failure(SparkAppFailed("incremental_sync", "r", REPORTED))

    printed = capsys.readouterr()
    expected = {**REPORTED.to_json(), "Message": "incremental_sync stopped: columns differ. Mend them."}
    assert json.loads(printed.out)["error"] == expected
    assert printed.err == "error [DM-5002 upstream] incremental_sync stopped: columns differ. Mend them.\n"


def test_only_a_run_that_was_taken_over_has_that_exit_code() -> None:
    assert exit_code_of(TaskTakenOver("incremental_sync", "r")) is Exit.TAKEN_OVER
    assert exit_code_of(Broken("it")) is Exit.FAILED
