"""`dmctl operate-source` and `config import`: source files of DM become Airflow connections."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.models import Connection
from airflow.utils.session import create_session

from airflow_provider_dm.cli.main import main
from airflow_provider_dm.engine.config.yaml_file import load_source
from airflow_provider_dm.hooks.database import endpoint_of, source_in
from airflow_provider_dm.launch import connections as written

CANARY = "c4nary/@:of the source"

# As `config export` of DM 8.5 writes it: every key, with Go's durations.
EXPORTED = """\
enable: true
enable-gtid: true
auto-fix-gtid: false
relay-dir: relay-dir
meta-dir: ""
flavor: mysql
charset: ""
enable-relay: false
relay-binlog-name: ""
relay-binlog-gtid: ""
source-id: {source}
from:
  host: db1
  port: 3307
  user: dm
  password: "{password}"
  max-allowed-packet: null
  session: {{wait_timeout: "100"}}
  security: null
purge: {{interval: 7200, expires: 24, remain-space: 15}}
checker:
  check-enable: true
  backoff-rollback: 5m0s
  backoff-max: 5m0s
  check-interval: 5s
  backoff-min: 1s
  backoff-jitter: true
  backoff-factor: 2
server-id: 429595703
tracer: {{}}
case-sensitive: false
filters:
- schema-pattern: shop_*
  table-pattern: ""
  events: [drop table]
  sql-pattern: []
  action: Ignore
"""


@pytest.fixture
def export(tmp_path: Path, airflow_database: None) -> Path:
    """A directory of `config export`, whose sources have no connections yet."""
    for name in ("sources", "tasks"):
        (tmp_path / name).mkdir()
    for source in ("exported-01", "exported-02"):
        file = tmp_path / "sources" / f"{source}.yaml"
        file.write_text(EXPORTED.format(source=source, password=CANARY))
        file.chmod(0o600)
    (tmp_path / "relay_workers.json").write_text('{"exported-02": ["dm-10.0.0.5-8262"]}')
    task = {"name": "shop", "task-mode": "all", "mysql-instances": [{"source-id": "exported-01"}]}
    (tmp_path / "tasks" / "shop.yaml").write_text(json.dumps(task))
    with create_session() as session:
        session.query(Connection).filter(Connection.conn_id.like("exported-%")).delete()
    return tmp_path


def stored(name: str) -> Connection:
    with create_session() as session:
        found: Connection = session.query(Connection).filter_by(conn_id=name).one()
        session.expunge(found)
    return found


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main([*words, "--json"])
    printed = capsys.readouterr()
    assert CANARY not in printed.out + printed.err
    return code, json.loads(printed.out)


def test_source_files_and_exports_become_connections_that_mean_the_same(
    export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = export / "sources" / "exported-01.yaml"
    with pytest.MonkeyPatch.context() as wrong:
        wrong.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{export}/nothing.db")
        error = run(capsys, "operate-source", "create", str(file))[1]["error"]
    assert (error["ErrCode"], "`airflow db check-migrations`" in error["Workaround"]) == ("DM-1317", True)
    assert run(capsys, "operate-source", "create", str(file))[0] == 0

    connection, config = stored("exported-01"), load_source(file)
    assert config.from_ is not None
    assert source_in(connection, "exported-01") == config.model_copy(
        update={"from_": None, "meta_dir": "", "auto_fix_gtid": None}
    )
    assert endpoint_of(connection, "exported-01") == config.from_.endpoint("exported-01")

    file.write_text(file.read_text().replace("db1", "db2"))
    assert run(capsys, "operate-source", "update", str(file))[0] == 0
    assert stored("exported-01").host == "db2"

    (export / "tasks" / "wrong.yaml").write_text("name: wrong\n")
    error = run(capsys, "config", "import", "--dir", str(export / "tasks"))[1]["error"]
    assert "has no sources/*.yaml" in error["Message"]
    code, answer = run(capsys, "config", "import", "--dir", str(export))
    assert code == 1
    assert "already exists" in answer["sources"][0]["msg"]
    assert [one["result"] for one in answer["sources"]] == [False, True]
    assert [(one["name"], one["result"]) for one in answer["tasks"]] == [("shop", True), ("wrong", False)]
    assert source_in(stored("exported-01"), "exported-01").enable_relay is False
    assert source_in(stored("exported-02"), "exported-02").enable_relay is True

    assert run(capsys, "operate-source", "stop", str(file))[0] == 0
    listed = [one["source"] for one in run(capsys, "operate-source", "show")[1]["sources"]]
    assert ("exported-01" in listed, "exported-02" in listed) == (False, True)


def test_the_file_for_airflow_is_private_and_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow_database: None
) -> None:
    """A shell in place of Python sees the file as Airflow would."""
    spy = tmp_path / "python"
    spy.write_text(f"#!/bin/sh\nstat -c '%a %n' \"$5\" >{tmp_path}/seen\nprintf '%s ' \"$@\" >{tmp_path}/words\n")
    spy.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(spy))
    written.write_connections({"a": {"password": CANARY}}, overwrite=False)
    mode, _, file = (tmp_path / "seen").read_text().strip().partition(" ")
    assert mode == "600"
    assert not Path(file).exists()
    assert CANARY not in (tmp_path / "words").read_text()


def test_without_airflow_the_error_names_the_alternative(export: Path) -> None:
    code = (
        "import sys; sys.meta_path.insert(0, type('No', (), {'find_spec': staticmethod(lambda name, *_: None)}))\n"
        "from importlib import util; found = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'airflow' else found(name, *more)\n"
        "from airflow_provider_dm.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    file = export / "sources" / "exported-01.yaml"
    words = [sys.executable, "-c", code, "operate-source", "create", str(file), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert "Airflow is not installed" in json.loads(done.stdout)["error"]["Message"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
