"""The start of TiDB by the testbed, and the message without a TiDB server."""

from pathlib import Path

import pytest

from testbed import ServerSpec, TidbUnavailable, available
from testbed.tidb import VARIABLE, tidb_argv, tidb_build, tidb_config, tidb_program


def program(folder: Path, says: str) -> Path:
    """Make a program that answers with these lines, whatever it is asked."""
    made = folder / "some-tidb"
    made.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n")
    made.chmod(0o755)
    return made


def test_the_command_line_gives_each_server_folders_of_its_own(tmp_path: Path) -> None:
    assert tidb_argv(("/opt/tidb-server",), Path("/home/one"), Path("/run/s"), "127.0.0.1", 20001) == [
        "/opt/tidb-server",
        "--config=/home/one/tidb.toml",
        "--store=unistore",
        "--path=/home/one/data",
        "--host=127.0.0.1",
        "-P=20001",
        "--socket=/run/s",
        "--report-status=false",
        "-L=warn",
    ]
    assert tidb_config(Path('/a "b"')).splitlines() == [
        r'temp-dir = "/a \"b\"/tmp"',
        r'tmp-storage-path = "/a \"b\"/tmp"',
    ]


def test_the_variable_names_the_program_which_has_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = program(tmp_path, "Release Version: v8.5.3\nEdition: Community\nGit Branch: HEAD\nStore: unistore")
    monkeypatch.setenv(VARIABLE, str(made))
    build = ServerSpec("one", "tidb").build()
    assert (build.version, build.argv, build.initialise) == ("8.5.3", (str(made),), None)


def test_the_configured_program_takes_precedence_over_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "").rename(tmp_path / "tidb-server")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    assert tidb_program() == str(tmp_path / "tidb-server")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
    with pytest.raises(TidbUnavailable, match=rf"^TiDB is not available here: .*none \({VARIABLE}\) is no program$"):
        tidb_program()


def test_without_a_program_the_reason_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    assert str(available("tidb")) == f"TiDB is not available here: no tidb-server on PATH; {VARIABLE} may name one"


def test_a_program_that_prints_no_release_is_not_tidb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(program(tmp_path, "gcc 12")))
    with pytest.raises(TidbUnavailable, match="tells no release"):
        tidb_build()
