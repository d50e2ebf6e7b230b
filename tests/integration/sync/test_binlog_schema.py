"""`dmctl binlog-schema` against a task's target: what is shown, what is changed, and what a run at work is spared."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from airflow_provider_dm.cli.main import main
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import CreateTable
from airflow_provider_dm.engine.downstream.claim import current_generation
from airflow_provider_dm.engine.downstream.errors import Fenced
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.session import run_transaction, target_connection
from airflow_provider_dm.engine.downstream.table_definitions import Definition, load_definitions
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.processes import Holder
from tests.integration.sync.conftest import HOLDER, SOURCE_ID, SyncKit

Dmctl = Callable[..., dict[str, Any]]


@pytest.fixture
def dmctl(one_kit: SyncKit, capsys: pytest.CaptureFixture[str]) -> Dmctl:
    """`dmctl binlog-schema ACTION TASK.yaml …` of a task that has begun; returns the answer of its one source."""
    one_kit.begin_with("plain", "pair")
    held = one_kit.store.acquire_lease("test", SOURCE_ID, HOLDER, ttl_seconds=60, at_least=0)
    one_kit.store.release_lease(held)  # as an app does when it ends
    task = one_kit.folder / "task.yaml"
    database = {"host": one_kit.target.host, "port": one_kit.target.port, "user": one_kit.target.user}
    document = {
        "name": "test",
        "task-mode": "incremental",
        "meta-schema": one_kit.meta_schema,
        "target-database": database,
        "mysql-instances": [{"source-id": SOURCE_ID, "block-allow-list": "ours"}],
        "block-allow-list": {"ours": {"do-dbs": [one_kit.schema]}},
    }
    task.write_text(yaml.safe_dump(document))

    def run(action: str, *words: str) -> dict[str, Any]:
        code = main(["binlog-schema", action, str(task), *words, "--meta-url", one_kit.meta_url, "--json"])
        printed = json.loads(capsys.readouterr().out)
        answer: dict[str, Any] = printed["sources"][0] if printed.get("sources") else printed
        assert (code == 0) is printed["result"] is answer["result"]
        return answer

    return run


def stored(kit: SyncKit) -> dict[TableName, Definition]:
    return load_definitions(target_connection(kit.endpoint(kit.target, "target").resolve()), kit.ref)


def test_tables_are_shown_as_rows_are_read_by_them(one_kit: SyncKit, dmctl: Dmctl) -> None:
    assert dmctl("list")["tables"] == [f"{one_kit.schema}.pair", f"{one_kit.schema}.plain"]
    assert dmctl("list", "other")["tables"] == []
    shown = dmctl("get", one_kit.schema, "pair")["msg"]
    statement = parse(shown, 0, one_kit.schema)
    assert isinstance(statement, CreateTable)
    assert [(one.name, one.type.name) for one in statement.definition.columns] == [
        ("a", "int"),
        ("b", "varchar"),
        ("v", "int"),
    ]
    assert dmctl("list", one_kit.schema, "pair")["msg"] == shown
    assert f"has no table {one_kit.schema}.nope" in dmctl("get", one_kit.schema, "nope")["msg"]


def test_a_definition_is_read_from_a_file_the_source_or_the_target(one_kit: SyncKit, dmctl: Dmctl) -> None:
    schema, file = one_kit.schema, one_kit.folder / "plain.sql"
    name = TableName(schema, "plain")
    file.write_text("CREATE TABLE plain (id bigint PRIMARY KEY, v varchar(40), w int) COLLATE utf8mb4_bin;\n")

    assert "w int" in dmctl("update", schema, "plain", str(file))["msg"]

    given = Definition(dmctl("get", schema, "plain")["msg"], "utf8mb4_bin", by_hand=True)
    assert stored(one_kit)[name] == given
    for server, column in ((one_kit.source, "of_source"), (one_kit.target, "of_target")):
        server.sql(f"ALTER TABLE `{schema}`.plain ADD COLUMN {column} int")
    source = one_kit.folder / "source.yaml"
    login = {"host": one_kit.source.host, "port": one_kit.source.port, "user": one_kit.source.user}
    source.write_text(yaml.safe_dump({"source-id": SOURCE_ID, "from": login}))
    assert "of_source" in dmctl("update", schema, "plain", "--from-source", "--source-file", str(source))["msg"]
    assert stored(one_kit)[name].collation.startswith("utf8mb4_")
    assert "of_target" in dmctl("update", schema, "plain", "--from-target")["msg"]
    assert dmctl("delete", schema, "plain")["result"]
    assert list(stored(one_kit)) == [TableName(schema, "pair")]
    assert f"has no table {schema}.plain" in dmctl("delete", schema, "plain")["msg"]


def test_an_invalid_definition_changes_nothing(one_kit: SyncKit, dmctl: Dmctl) -> None:
    schema, file = one_kit.schema, one_kit.folder / "other.sql"
    file.write_text("CREATE TABLE other (id int)")
    before = stored(one_kit)

    assert "it is the definition of" in dmctl("update", schema, "plain", str(file))["error"]["Message"]
    assert "give one of: a file" in dmctl("update", schema, "plain")["error"]["Message"]
    assert "--source-file of" in dmctl("update", schema, "plain", "--from-source")["error"]["Message"]
    assert "has no table elsewhere.plain" in dmctl("update", "elsewhere", "plain", "--from-target")["msg"]
    assert stored(one_kit) == before


def test_during_a_run_definitions_can_only_be_read(one_kit: SyncKit, dmctl: Dmctl) -> None:
    endpoint = one_kit.endpoint(one_kit.target, "target").resolve()
    generation = current_generation(target_connection(endpoint), one_kit.ref)
    at_work = Holder("test", "2", "here")
    held = one_kit.store.acquire_lease("test", SOURCE_ID, at_work, ttl_seconds=60, at_least=generation)

    assert dmctl("list")["result"]
    assert "DM-8005" in dmctl("update", one_kit.schema, "plain", "--from-target")["msg"]
    assert "DM-8005" in dmctl("delete", one_kit.schema, "plain")["msg"]
    assert current_generation(target_connection(endpoint), one_kit.ref) == generation

    one_kit.store.release_lease(held)
    assert dmctl("update", one_kit.schema, "plain", "--from-target")["result"]
    with pytest.raises(Fenced):  # a run with another metadata DB
        run_transaction(endpoint, Fence(one_kit.ref, generation).check)
    one_kit.sync_and_compare()
