"""Bad input: each is refused with an error and its remedy, and nothing is changed in the target."""

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from testbed import Server
from tests.conftest import FreshSchema

from .dmctl import Dmctl, Ended, Files, fingerprint, write_files

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

CUSTOMER = "CREATE TABLE `{schema}`.customer (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL)"


@pytest.fixture
def dmctl(tmp_path: Path) -> Dmctl:
    return Dmctl(tmp_path / "work")


@pytest.fixture
def schema(mysql_source: Server, mariadb_target: Server, fresh_schema: FreshSchema) -> str:
    """A schema with one filled table on the MySQL source, empty on the MariaDB target."""
    name = fresh_schema(mysql_source, mariadb_target)
    mysql_source.sql(f"{CUSTOMER.format(schema=name)}; INSERT INTO `{name}`.customer VALUES (1, 'a'), (2, 'b')")
    return name


def refused(ended: Ended, code: int, *patterns: str) -> None:
    """The exit code, a typed error and each of the patterns, for users and for programs."""
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    assert re.search(r"^error \[DM-\d{4} \w+\] ", ended.err, re.MULTILINE), ended.err
    for pattern in patterns:
        assert re.search(pattern, ended.err), f"{pattern} is not in:\n{ended.err}"
    if ended.out:
        assert ended.answer["result"] is False
        assert ended.answer["error"]["ErrCode"].startswith("DM-")


@pytest.fixture
def files_of(schema: str, mysql_source: Server, mariadb_target: Server, tmp_path: Path) -> Callable[..., Files]:
    """`files_of(login=…, port=…)`: the files of a task, with wrong values for the source."""
    write = partial(write_files, tmp_path, target=mariadb_target, sources={"one": mysql_source})
    return partial(write, schemas=[schema], name=schema)


@pytest.fixture
def run_refused(dmctl: Dmctl, mariadb_target: Server) -> Callable[..., Ended]:
    """`run_refused(files, code, *patterns)`: `dmctl run` is refused and leaves the target as it was."""

    def run(files: Files, code: int, *patterns: str) -> Ended:
        before = fingerprint(mariadb_target)
        ended = dmctl.here("run", *files.arguments, "--json")
        refused(ended, code, *patterns)
        assert fingerprint(mariadb_target) == before
        return ended

    return run


def test_an_unreachable_source(files_of: Callable[..., Files], run_refused: Callable[..., Ended]) -> None:
    run_refused(files_of(port=1), 5, r"one \(root@127\.0\.0\.1:1\)", "[Cc]onnect")


def test_a_wrong_password(
    files_of: Callable[..., Files], run_refused: Callable[..., Ended], mysql_source: Server
) -> None:
    mysql_source.create_user("dm_known", "right-password")
    files = files_of(login={"user": "dm_known", "password": "wrong-password"})
    ended = run_refused(files, 5, r"one \(dm_known@", "denies access", "password")
    assert "wrong-password" not in ended.err + ended.out


def test_a_password_from_the_environment_is_used_and_never_shown(
    dmctl: Dmctl, files_of: Callable[..., Files], mysql_source: Server
) -> None:
    mysql_source.create_user("dm_known", "right-password")
    files = files_of(login={"user": "dm_known", "password": ""})
    dmctl.environ = {"PW_OF_ONE": "right-password"}

    ended = dmctl.here("check-task", *files.arguments, "--password-env", "one=PW_OF_ONE", "--json")

    assert ended.code == 0, ended.err
    assert ended.answer["summary"]["passed"] is True
    assert "right-password" not in ended.err + ended.out


def test_an_unknown_key_in_task_yaml(files_of: Callable[..., Files], run_refused: Callable[..., Ended]) -> None:
    run_refused(files_of(extra="task-moed: all"), 1, r"task\.yaml:5", "task-moed", "task-mode")


def test_a_target_table_with_other_columns(
    files_of: Callable[..., Files], run_refused: Callable[..., Ended], schema: str, mariadb_target: Server
) -> None:
    mariadb_target.sql(f"CREATE TABLE `{schema}`.customer (id BIGINT PRIMARY KEY, title VARCHAR(40), born DATE)")
    run_refused(files_of(), 5, "customer", "title")


def test_no_java(dmctl: Dmctl, files_of: Callable[..., Files], run_refused: Callable[..., Ended]) -> None:
    dmctl.environ = {"PATH": str(Path(sys.executable).parent), "JAVA_HOME": ""}
    run_refused(files_of(), 1, r"\[DM-9001", "openjdk-17")


def test_an_unreachable_target(
    files_of: Callable[..., Files], run_refused: Callable[..., Ended], mariadb_target: Server
) -> None:
    files = files_of()
    files.task.write_text(files.task.read_text().replace(f"port: {mariadb_target.port}", "port: 1"))
    run_refused(files, 5, "target", "[Cc]onnect")
