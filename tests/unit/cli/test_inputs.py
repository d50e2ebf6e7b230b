"""Files and passwords become values: where a password comes from, and the errors of inputs that do not fit."""

import logging
import os
from pathlib import Path

import pytest

from airflow_provider_dm.cli import run
from airflow_provider_dm.cli.inputs import default_variable, read_arguments
from airflow_provider_dm.cli.main import parser
from airflow_provider_dm.cli.output import Output
from airflow_provider_dm.engine.config import secrets
from airflow_provider_dm.engine.errors import DmError, InvalidInput, NotSupportedYet

TASK = """\
name: shop
task-mode: all
target-database: {host: 127.0.0.1, port: 4000, user: dm, password: from-file}
mysql-instances:
- {source-id: one}
- {source-id: two}
"""


def write(folder: Path, name: str, text: str, mode: int = 0o600) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def source(folder: Path, name: str, login: str = "{host: 127.0.0.1, user: dm}") -> Path:
    return write(folder, f"{name}.yaml", f"source-id: {name}\nfrom: {login}\n")


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write(tmp_path, "task.yaml", TASK)


@pytest.fixture(autouse=True)
def nothing_received(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_received", {})


def test_sources_are_in_the_tasks_order_with_their_passwords(
    task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [source(tmp_path, "two"), source(tmp_path, "one", "{host: h, user: dm, password: plain}")]
    for name, value in (("DM_PASSWORD_ONE", "by-default"), ("DM_PASSWORD_TWO", "by-default"), ("MINE", "by-option")):
        monkeypatch.setenv(name, value)

    inputs = read_arguments(task, files, ["target=MINE"])

    assert [config.source_id for config in inputs.sources] == ["one", "two"]
    assert [endpoint.password.reveal() for endpoint in inputs.source_endpoints] == ["plain", "by-default"]
    assert inputs.target.password.reveal() == "by-option"
    assert {"DM_PASSWORD_TWO", "MINE"} & os.environ.keys() == set()  # no child inherits them
    assert read_arguments(task, files, ["target=MINE"]) == inputs
    assert read_arguments(task, files, ["one=MINE"]).source_endpoints[0].password.reveal() == "by-option"


def test_a_location_cannot_end_a_run_of_several_sources(
    task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy gets past this check."""
    monkeypatch.setattr(run, "check_pyspark", lambda: 1 / 0)
    files = [str(task), f"-s{source(tmp_path, 'one')}", f"-s{source(tmp_path, 'two')}"]
    arguments = [parser(["run"]).parse_args(["run", *files, "--until", one]) for one in ("bin.000001:4", "caught-up")]
    with pytest.raises(DmError, match="Use caught-up"):
        run.run_task(arguments[0], Output(as_json=True))
    with pytest.raises(ZeroDivisionError):
        run.run_task(arguments[1], Output(as_json=True))


@pytest.mark.parametrize("argument", ["one", "one=", "=X", "one=UNSET"])
def test_a_missing_password_variable_is_named(argument: str, task: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="SOURCE-ID=VARIABLE"):
        read_arguments(task, [source(tmp_path, "one"), source(tmp_path, "two")], [argument])


def test_the_files_have_to_be_those_of_the_task(task: Path, tmp_path: Path) -> None:
    one, two, three = (source(tmp_path, name) for name in ("one", "two", "three"))
    for files, why in (
        ([one, three], r"no --source file for two; files of sources that .* not name: three"),
        ([one, one, two], r"task shop: more than one file for one\."),
        ([one, write(tmp_path, "two.yaml", "source-id: two\n")], "source two: the file has no `from`"),
    ):
        with pytest.raises(InvalidInput, match=why):
            read_arguments(task, files)


def test_unsupported_features_are_reported_before_connecting(tmp_path: Path) -> None:
    task = write(tmp_path, "task.yaml", TASK.replace("task-mode: all", "task-mode: all\nshard-mode: optimistic"))

    with pytest.raises(NotSupportedYet, match="optimistic"):
        read_arguments(task, [source(tmp_path, "one"), source(tmp_path, "two")])


def test_a_readable_file_with_a_password_is_warned_of_without_showing_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = write(tmp_path, "task.yaml", TASK, mode=0o644)

    with caplog.at_level(logging.WARNING):
        read_arguments(task, [source(tmp_path, "one"), source(tmp_path, "two")])

    assert "readable by others" in caplog.text
    assert "from-file" not in caplog.text


def test_the_default_variable_is_the_name_in_capitals() -> None:
    assert default_variable("mysql-replica.01") == "DM_PASSWORD_MYSQL_REPLICA_01"
