"""`dmctl doctor`: what it finds wrong names a remedy, and the remedy, followed to the letter, ends it."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.cli.main import main
from airflow_provider_dm.launch.preflight import find_java
from testbed import Server

from .test_remedies import follow

Results = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("DM_WORK_DIR", str(tmp_path / "work"))
    yield
    monkeypatch.undo()


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Any:
    def results(*words: str) -> Results:
        """Run it; return its results by name and place, having checked that the exit code fits them."""
        code = main(["doctor", "--json", *words])
        found = json.loads(capsys.readouterr().out)
        assert found["result"] is (code == 0)
        assert code in (0, 5)
        assert all(one["instruction"] for one in found["results"] if one["state"] != "ok")
        return {(one["name"], one["source"]): one for one in found["results"]}

    return results


def failed(results: Results) -> list[str]:
    return [name for (name, _), one in results.items() if one["state"] == "fail"]


def a_source(path: Path, server: Server, **more: Any) -> str:
    file = path / "mysql-01.yaml"
    login = {"host": server.host, "port": server.port, "user": "root", "password": ""}
    file.write_text(json.dumps({"source-id": "mysql-01", "from": login | more.pop("login", {}), **more}))
    return str(file)


def test_the_doctor_finds_no_fault_on_this_machine(doctor: Any) -> None:
    results = doctor()
    assert failed(results) == []
    assert {name for name, _ in results} == {"java", "pyspark", "work_dir", "disk", "ports", "metadata_db"}


def test_java_is_named_by_java_home(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    java = find_java()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    results = doctor()
    assert failed(results) == ["java"]
    assert "set JAVA_HOME" in results["java", socket.gethostname()]["instruction"]
    monkeypatch.setenv("JAVA_HOME", str(java))
    assert failed(doctor()) == []


def test_another_work_directory_is_named(doctor: Any, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "tasks").symlink_to(tmp_path / "elsewhere")
    results = doctor()
    assert failed(results) == ["work_dir"]
    assert "--work-dir" in results["work_dir", socket.gethostname()]["instruction"]
    assert failed(doctor("--work-dir", str(tmp_path / "other"))) == []


def test_spark_listens_at_an_address_of_this_machine(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.1")  # of documentation, and of no machine
    results = doctor()
    assert failed(results) == ["ports"]
    found = re.search(r"export SPARK_LOCAL_IP=(\S+)", results["ports", socket.gethostname()]["instruction"])
    assert found
    monkeypatch.setenv("SPARK_LOCAL_IP", found[1])
    assert failed(doctor()) == []


def test_a_metadata_db_is_migrated(doctor: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--meta-url", f"sqlite:///{tmp_path / 'named.db'}"]
    results = doctor(*named)
    assert failed(results) == ["metadata_db"]
    assert "dmctl meta migrate" in results["metadata_db", "metadata DB"]["instruction"]
    assert main(["meta", "migrate", *named]) == 0
    capsys.readouterr()
    assert failed(doctor(*named)) == []


def test_an_unreachable_source_is_reported(doctor: Any, tmp_path: Path, source: Server) -> None:
    assert failed(doctor("-s", a_source(tmp_path, source, login={"port": 1}))) == ["connection"]
    assert failed(doctor("-s", a_source(tmp_path, source))) == []


def test_the_grants_of_a_source_are_given_as_they_are_written(doctor: Any, tmp_path: Path, source: Server) -> None:
    source.sql("DROP USER IF EXISTS doctor")
    source.create_user("doctor", "c4nary", privileges="USAGE")
    file = a_source(tmp_path, source, login={"user": "doctor", "password": "c4nary"})
    results = doctor("-s", file)
    assert failed(results) == ["replication_privilege", "select_privilege"]
    assert "c4nary" not in str(results)
    for one in results.values():
        if one["state"] == "fail":
            follow(one["instruction"].replace("`SCHEMA`", "`shop`").partition("; for")[0], source)
    assert failed(doctor("-s", file)) == []
    source.sql("DROP USER doctor")


def test_the_disk_of_a_relay_log_is_checked(doctor: Any, tmp_path: Path, source: Server) -> None:
    file = a_source(tmp_path, source, **{"enable-relay": True, "purge": {"remain-space": 1_000_000}})
    one = doctor("-s", file)["relay_disk", "mysql-01"]
    assert one["state"] == "warn"
    assert "lower purge.remain-space" in one["instruction"]
    file = a_source(tmp_path, source, **{"enable-relay": True, "purge": {"remain-space": 1}})
    assert doctor("-s", file)["relay_disk", "mysql-01"]["state"] == "ok"


def test_doctor_with_a_task_runs_the_precheck_and_checks_its_port(
    doctor: Any, tmp_path: Path, source: Server, target: Server
) -> None:
    def a_task(port: int) -> str:
        file = tmp_path / "task.yaml"
        where = {"host": target.host, "port": target.port, "user": "root", "password": ""}
        rules = {"name": "shop", "task-mode": "all", "mysql-instances": [{"source-id": "mysql-01"}]}
        file.write_text(json.dumps({**rules, "target-database": where, "metrics-addr": f"127.0.0.1:{port}"}))
        return str(file)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        results = doctor(a_task(taken.getsockname()[1]), "-s", a_source(tmp_path, source))
        assert "another port" in results["ports", "shop"]["instruction"]
        assert ("dump_privilege", "mysql-01") in results
        assert ("connection", "target") in results
    assert "ports" not in failed(doctor(a_task(taken_by_nobody()), "-s", a_source(tmp_path, source)))


def taken_by_nobody() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_a_file_that_cannot_be_read_is_a_result(doctor: Any, tmp_path: Path) -> None:
    assert failed(doctor("-s", str(tmp_path / "gone.yaml"))) == ["files"]
