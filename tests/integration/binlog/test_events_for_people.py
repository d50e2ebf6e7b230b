"""`dmctl binlog events`: a page of a server's log, read by mysql-replication."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.cli.main import main
from testbed import Server


@pytest.fixture
def ask(source: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    file = tmp_path / "source.yaml"
    login = f"{{host: {source.host}, port: {source.port}, user: {source.user}}}"
    file.write_text(f"source-id: one\nfrom: {login}\n")

    def ask(*words: object, code: int = 0) -> dict[str, Any]:
        argv = ["binlog", "events", "--source-file", file, "--json", *words]
        assert main(list(map(str, argv))) == code
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return ask


def test_pages_of_a_log(source: Server, schema: str, ask: Callable[..., dict[str, Any]]) -> None:
    source.sql(f"CREATE TABLE `{schema}`.t (id INT PRIMARY KEY, v VARCHAR(20)); FLUSH BINARY LOGS")
    file = source.sql("SHOW BINARY LOGS")[-1][0]
    source.sql(
        f"USE `{schema}`; INSERT INTO t VALUES (1, 'a'), (2, 'b'); UPDATE t SET v = 'c' WHERE id = 2; DELETE FROM t;"
        "CREATE TABLE other (id INT)"
    )

    page = ask("--from", file)
    ends = [*(one["at"] for one in page["events"][1:]), None]

    assert page["next"] is None
    assert page["events"][0]["type"] == "FORMAT_DESCRIPTION"
    assert page["events"][0]["at"] == f"{file}:4"
    for one, end in zip(page["events"], ends, strict=True):
        position = int(one["at"].rpartition(":")[2])
        assert end is None or end == f"{file}:{position + one['bytes']}", one
    assert not any("unread" in one for one in page["events"])
    changes = [(one["change"], one["rows"]) for one in page["events"] if "change" in one]
    assert changes == [("insert", 2), ("update", 1), ("delete", 2)]
    ids = [one for one in page["events"] if one["type"] in ("GTID", "MARIADB_GTID")]
    numbers = [int(re.split("[:-]", one["gtid"])[-1]) for one in ids]
    assert numbers == list(range(numbers[0], numbers[0] + 4))

    named = ask("--from", file, "--table", f"{schema}.t", "--rows")["events"]
    assert all("change" in one or " t" in one["sql"] for one in named)
    of_table = [one for one in named if "change" in one]
    assert [one["change"] for one in of_table] == ["insert", "update", "delete"]
    assert list(of_table[0]["values"][0]["values"].values()) == [1, "a"]
    assert list(of_table[1]["values"][0]["after"].values()) == [2, "c"]

    second = ids[1]["at"]
    first_page = ask("--from", file, "--until", second)
    assert first_page["next"] == second
    whole = ask("--from", second, "--limit", 7)  # with a part of the next transaction, which is left for its own page
    assert whole["next"] == ids[2]["at"]
    pages = [*first_page["events"], *whole["events"], *ask("--from", whole["next"])["events"]]
    assert pages == page["events"]
    part = ask("--from", second, "--limit", 2)
    assert (len(part["events"]), part["next"]) == (2, page["events"][len(first_page["events"]) + 2]["at"])
    inside = next(one["at"] for one in page["events"] if one.get("change") == "update")
    assert "table map" in ask("--from", inside)["events"][0]["unread"]

    assert "does not send its binlog from mysql-bin.099999" in ask("--from", "mysql-bin.099999", code=1)["msg"]
