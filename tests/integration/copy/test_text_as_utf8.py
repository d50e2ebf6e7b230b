"""Text of every charset arrives as the same characters, also where the target stores all text as UTF-8."""

from __future__ import annotations

import os

from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.verify.verification import verify
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import Migration, differences

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


def test_every_charset_arrives_as_the_same_characters(
    source: Server, target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(source)
    marks = ", ".join(["%s"] * len(TEXTS))
    source.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {columns(*TEXTS)})", database=schema)
    source.sql(f"INSERT INTO t VALUES (1, {marks})", [*TEXTS.values()], database=schema)
    if target.flavour == "tidb":  # a person chooses
        wide = f"CREATE TABLE `{schema}`.t (id INT PRIMARY KEY, {columns(*IN_TIDB)})"
        target.sql(f"CREATE DATABASE `{schema}`; {wide}")
    migration = Migration(target, {"one": source}, {"one": [schema]}, f"{schema}_meta")
    migration.finish()

    compared = differences(target, {f"{schema}.t": [(source, f"{schema}.t")]})
    same = " AND ".join(f"{name} = %s" for name in TEXTS)
    assert compared.equal
    assert target.sql(f"SELECT COUNT(*) FROM t WHERE {same}", [*TEXTS.values()], database=schema) == [(1,)]


def test_numbers_in_json_are_compared_by_value_and_a_key_over_an_expression_is_read(
    mysql_source: Server, target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(mysql_source)
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
    migration = Migration(target, {"one": mysql_source}, {"one": [schema]}, f"{schema}_meta")
    migration.finish()
    assert verify(migration.spec, LocalRunner(2), os.environ)["verified"]
    target.sql("UPDATE t SET j = '[18446744073709551615, -0.25]' WHERE id = 2", database=schema)
    assert not verify(migration.spec, LocalRunner(2), os.environ)["verified"]
