"""Text of every charset arrives as the same characters, also where the target stores all text as UTF-8."""

from pathlib import Path

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.precheck.result import State
from airflow_provider_dm.engine.precheck.run import run_precheck
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.verify.verification import verify
from testbed import Server, ServerSpec
from testbed.tidb import tidb_config
from tests.conftest import FreshSchema, StartServers
from tests.integration.copy.migrations import Migration, differences
from tests.jobs import endpoint

TEXTS = {
    "latin1": "café €",
    "cp1251": "Жук",
    "sjis": "表 ｱ\\",
    "gbk": "腬中",
    "utf16": "é😀",
    "dec8": "ŒÿÄ",
    "swe7": "aÅö",
}
IN_TIDB = ("latin1", "gbk")
"""Charsets that TiDB has."""


def columns(*charsets: str) -> str:
    """The columns, each in its charset if that is one of these, else in utf8mb4."""
    kinds = {name: name if name in charsets else "utf8mb4" for name in TEXTS}
    return ", ".join(f"{name} VARCHAR(20) CHARACTER SET {one} COLLATE {one}_bin" for name, one in kinds.items())


def test_every_charset_is_replicated_as_the_same_characters(source: Server, target: Server, schema: str) -> None:
    marks = ", ".join(["%s"] * len(TEXTS))
    source.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {columns(*TEXTS)})", database=schema)
    source.sql(f"INSERT INTO t VALUES (1, {marks})", [*TEXTS.values()], database=schema)
    if target.flavour == "tidb":  # a user chooses
        wide = f"CREATE TABLE `{schema}`.t (id INT PRIMARY KEY, {columns(*IN_TIDB)})"
        target.sql(f"CREATE DATABASE `{schema}`; {wide}")
    migration = Migration.of(target, source, schema)
    migration.finish()

    compared = differences(target, {f"{schema}.t": [(source, f"{schema}.t")]})
    same = " AND ".join(f"{name} = %s" for name in TEXTS)
    assert compared.equal
    assert target.sql(f"SELECT COUNT(*) FROM t WHERE {same}", [*TEXTS.values()], database=schema) == [(1,)]


def test_the_precheck_and_the_load_name_the_columns_that_tidb_compares_otherwise(
    source: Server, tidb_target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(source)
    lacking = "b VARCHAR(9) CHARACTER SET sjis, c CHAR(3) COLLATE utf8mb4_swedish_ci, d TEXT CHARACTER SET sjis"
    source.sql(f"CREATE TABLE t (id INT PRIMARY KEY, a INT, {lacking}) CHARACTER SET utf8mb4", database=schema)
    source.sql("CREATE TABLE shapes (id INT PRIMARY KEY, p POINT)", database=schema)
    migration = Migration.of(tidb_target, source, schema)
    found = prechecked(migration, source)
    japanese = (
        "sjis_japanese_ci becomes utf8mb4_bin, which distinguishes upper and lower case and accents (of `b`, `d`)"
    )
    swedish = "utf8mb4_swedish_ci becomes utf8mb4_bin, which distinguishes upper and lower case and accents (of `c`)"
    assert {f"{schema}.t will be created, and collation {one}" for one in (japanese, swedish)} <= found.keys()
    (shapes,) = [message for message in found if "shapes" in message]
    assert "`p` point" in shapes
    assert "leave the table out" in found[shapes]
    source.sql("DROP TABLE shapes", database=schema)
    notes = migration.finish()["notes"]
    assert {f"{schema}.t: collation {one}" for one in (japanese, swedish)} <= set(notes)


def test_the_precheck_reports_a_tidb_that_compares_text_by_bytes(
    mysql_source: Server, tidb_target: Server, fresh_schema: FreshSchema, start_own: StartServers, tmp_path: Path
) -> None:
    schema = fresh_schema(mysql_source)
    mysql_source.sql("CREATE TABLE t (v VARCHAR(9) PRIMARY KEY); INSERT INTO t VALUES ('a')", database=schema)
    settings = tmp_path / "old.toml"
    settings.write_text(f"{tidb_config(tmp_path)}new_collations_enabled_on_first_bootstrap = false\n")
    (old,) = start_own(ServerSpec("old", "tidb", (f"--config={settings}",)))
    for target, warned in ((tidb_target, False), (old, True)):
        migration = Migration.of(target, mysql_source, schema)
        assert any("new_collation_enabled" in message for message in prechecked(migration, mysql_source)) is warned
        migration.finish()
        assert target.sql("SELECT v FROM t", database=schema) == [("a",)]


def prechecked(migration: Migration, source: Server) -> dict[str, str]:
    """What the precheck does not find in order, with its remedies."""
    config = SourceConfig.model_validate({"source-id": "one"})
    target = endpoint("target", migration.target)
    report = run_precheck(migration.spec.task, [(config, endpoint("one", source))], target)
    return {one.message: one.remedy for one in report.results if one.state is not State.OK}


def test_json_numbers_are_compared_by_value_and_functional_keys_are_read(
    mysql_source: Server, target: Server, schema: str
) -> None:
    mysql_source.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, j JSON, v VARCHAR(9) COLLATE utf8mb4_bin);"
        "INSERT INTO t VALUES (1, '{\"bb\": 1.0, \"a\": [3.0e5, 1e20]}', 'a');"
        "INSERT INTO t VALUES (2, '[18446744073709551615, -0.5]', 'B')",
        database=schema,
    )
    key = ", UNIQUE KEY k ((LOWER(v)))" if target.flavour != "mariadb" else ""
    document = "JSON" if target.flavour != "mariadb" else "LONGTEXT"
    target.sql(
        f"CREATE DATABASE `{schema}`;"
        f"CREATE TABLE `{schema}`.t (id INT PRIMARY KEY, j {document}, v VARCHAR(9) COLLATE utf8mb4_bin{key})"
    )
    migration = Migration.of(target, mysql_source, schema)
    migration.finish()
    assert verify(migration.spec, LocalRunner(2))["verified"]
    target.sql("UPDATE t SET j = '[18446744073709551615, -0.25]' WHERE id = 2", database=schema)
    assert not verify(migration.spec, LocalRunner(2))["verified"]
