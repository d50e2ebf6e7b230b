"""`dmctl run` of an incremental task: with a wrong start, a right start by GTID, and a purged start."""

from pathlib import Path

import pytest

from testbed import Server, ServerSpec
from tests.binlogs import purge_before
from tests.conftest import FreshSchema, StartServers
from tests.integration.sync.conftest import rows_of

from .dmctl import Dmctl, Files, write_files

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1200)]


def incremental(files: Files, meta: str) -> Files:
    """The same task, which copies nothing and begins at `meta`."""
    text = files.task.read_text().replace("task-mode: all", "task-mode: incremental")
    files.task.write_text(text.replace("block-allow-list: ours", f"block-allow-list: ours\n    meta: {meta}", 1))
    return files


def test_a_wrong_start_is_corrected_and_the_checkpoint_is_kept(
    mysql_target: Server, start_own: StartServers, fresh_schema: FreshSchema, tmp_path: Path
) -> None:
    (source,) = start_own(ServerSpec("own", "mariadb"))
    schema = fresh_schema(source, mysql_target)
    for server in (source, mysql_target):
        server.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=schema)
    file, position = source.log_end()
    ((gtids,),) = source.sql("SELECT @@gtid_binlog_pos")
    source.sql("INSERT INTO t VALUES (1, 1); FLUSH BINARY LOGS; INSERT INTO t VALUES (2, 2)", database=schema)
    (tmp_path / "wrong").mkdir()
    sources = {"maria-01": source}
    wrong, right = (
        incremental(write_files(folder, target=mysql_target, sources=sources, schemas=[schema], name=schema), meta)
        for folder, meta in (
            (tmp_path / "wrong", f"{{binlog-name: {file}, binlog-pos: {position + 1}}}"),
            (tmp_path, f"{{binlog-gtid: '{gtids}'}}"),
        )
    )
    dmctl = Dmctl(tmp_path / "work")

    refused = dmctl("run", *wrong.arguments)
    done = dmctl("run", *right.arguments, "--no-verify")

    assert "DM-6048" in refused.err, refused
    assert refused.code == 1
    assert done.code == 0, done.err[-4000:]

    source.sql("INSERT INTO t VALUES (3, 3)", database=schema)
    purge_before(source, source.log_end()[0])
    (tmp_path / "work" / "meta.db").unlink()
    again = dmctl("run", *right.arguments, "--no-verify")

    assert again.code == 0, again.err[-4000:]
    assert rows_of(mysql_target, schema, "t") == rows_of(source, schema, "t") == [(1, 1), (2, 2), (3, 3)]
