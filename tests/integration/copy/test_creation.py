"""Creation of missing objects: schemas with the source's default collation, keyless tables without a key."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.ddl.errors import CannotCreateTarget
from airflow_provider_dm.engine.downstream.errors import KeyDemanded, TargetRefused
from airflow_provider_dm.engine.precheck.result import State
from airflow_provider_dm.engine.precheck.run import run_precheck
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import Migration, assert_same
from tests.jobs import endpoint

CREATES = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP"


@contextmanager
def globals_of(server: Server, values: Mapping[str, int]) -> Iterator[None]:
    """Set for others; sessions of ours that are open already keep theirs."""
    for name, value in values.items():
        server.sql(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        for name, value in values.items():
            server.sql(f"SET GLOBAL {name} = {1 - value}")


def keyless(source: Server, fresh_schema: FreshSchema) -> str:
    schema = fresh_schema(source)
    source.sql("CREATE TABLE t (v INT); INSERT INTO t VALUES (3), (3), (NULL)", database=schema)
    return schema


DEMANDS = ({"sql_require_primary_key": 1}, {"sql_generate_invisible_primary_key": 1})


@pytest.mark.parametrize("demands", DEMANDS, ids=lambda demands: next(iter(demands)))
def test_a_table_without_a_key_stays_without_one(
    source: Server, mysql_target: Server, fresh_schema: FreshSchema, demands: Mapping[str, int]
) -> None:
    schema = keyless(source, fresh_schema)
    with globals_of(mysql_target, demands):
        Migration.of(mysql_target, source, schema).finish()
    assert_same(source, mysql_target, schema, "t")
    keys = "SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = %s"
    assert mysql_target.sql(keys, [schema]) == [(0,)]


@pytest.mark.parametrize("demands", DEMANDS, ids=lambda demands: next(iter(demands)))
def test_an_account_without_the_privilege_gets_the_settings_name(
    source: Server, mysql_target: Server, fresh_schema: FreshSchema, demands: Mapping[str, int]
) -> None:
    schema = keyless(source, fresh_schema)
    mysql_target.create_user("dm_plain", "", privileges=CREATES)
    there = replace(mysql_target, user="dm_plain")
    migration = Migration.of(there, source, schema)
    (setting,) = demands
    with globals_of(mysql_target, demands):
        config = SourceConfig.model_validate({"source-id": "one"})
        report = run_precheck(migration.spec.task, [(config, endpoint("one", source))], endpoint("target", there))
        with pytest.raises(KeyDemanded, match=f"whose {setting} is on.*{schema}.t") as caught:
            migration.finish()
    assert "SESSION_VARIABLES_ADMIN" in caught.value.hint
    assert [one.name for one in report.failures if setting in one.message] == ["table_creation"]
    assert all(one.state is not State.FAIL or setting in one.message for one in report.results)
    assert mysql_target.sql("SHOW DATABASES LIKE %s", [schema]) == []

    migration.finish()  # once the setting is off


def test_mariadb_may_demand_keys_too(source: Server, mariadb_target: Server, fresh_schema: FreshSchema) -> None:
    schema = keyless(source, fresh_schema)
    migration = Migration.of(mariadb_target, source, schema)
    with (
        globals_of(mariadb_target, {"innodb_force_primary_key": 1}),
        pytest.raises(KeyDemanded, match="innodb_force_primary_key"),
    ):
        migration.finish()


# Schemas


def default_of(server: Server, schema: str) -> str:
    ((collation,),) = server.sql(
        "SELECT default_collation_name FROM information_schema.schemata WHERE schema_name = %s", [schema]
    )
    return str(collation)


IN_TIDB = {
    "latin1_swedish_ci": "latin1_bin",
    "utf8mb4_unicode_520_ci": "utf8mb4_0900_ai_ci",
    "utf8mb4_0900_as_cs": "utf8mb4_0900_bin",
    "utf8mb4_nopad_bin": "utf8mb4_0900_bin",
}


OF_ONE_FLAVOUR = {
    "mysql": {"utf8mb4_0900_as_cs": "utf8mb4_uca1400_nopad_as_cs"},
    "mariadb": {"utf8mb4_nopad_bin": "utf8mb4_0900_bin"},
}


@pytest.mark.every_pair
def test_schemas_keep_their_defaults(
    source: Server, target: Server, fresh_schema: FreshSchema, unique_database: str
) -> None:
    """`collation_compatible: strict` refuses each that does not."""
    becomes = IN_TIDB if target.flavour == "tidb" else OF_ONE_FLAVOUR[source.flavour]
    if source.flavour == target.flavour:
        becomes = {}
    schemas, strict = dict[str, str](), {"collation_compatible": "strict"}
    for collation in ("latin1_swedish_ci", "utf8mb4_bin", "utf8mb4_unicode_520_ci", *OF_ONE_FLAVOUR[source.flavour]):
        schemas[collation] = schema = fresh_schema(source, suffix=f"_{collation}")
        source.sql(f"ALTER DATABASE `{schema}` COLLATE {collation}")
        source.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=schema)
        if collation in becomes:
            Migration.of(target, source, schema, task=strict).stops(
                CannotCreateTarget, match=f"the collation {collation}, which"
            )
    chosen = {"one": list(schemas.values())}
    migration = Migration(target, {"one": source}, chosen, f"{unique_database}_meta", task={} if becomes else strict)
    result = migration.finish()
    defaults = {collation: default_of(target, schema) for collation, schema in schemas.items()}
    assert defaults == {collation: becomes.get(collation, collation) for collation in schemas}
    wanted = [f"{schemas[one]}: collation {one} becomes {becomes[one]}" for one in schemas if one in becomes]
    kept = tuple(schema for collation, schema in schemas.items() if collation not in becomes)
    assert not any(note.startswith(kept) for note in result["notes"]), result["notes"]
    assert all(any(note.startswith(one) for note in result["notes"]) for one in wanted), result["notes"]


def test_a_default_that_the_target_lacks_is_reported(
    mysql_source: Server, mariadb_target: Server, fresh_schema: FreshSchema
) -> None:
    for suffix, collation in (("_a", "gb18030_bin"), ("_b", "utf8mb4_ja_0900_as_cs_ks")):
        schema = fresh_schema(mysql_source, suffix=suffix)
        mysql_source.sql(f"ALTER DATABASE `{schema}` COLLATE {collation}")
        mysql_source.sql("CREATE TABLE t (id INT PRIMARY KEY) COLLATE latin1_bin", database=schema)
        migration = Migration.of(mariadb_target, mysql_source, schema)
        replace(migration, task={"collation_compatible": "strict"}).stops(
            TargetRefused, match=rf"on {schema}: (1115|1273)\b"
        )
        result = migration.finish()
        assert result["notes"] == [f"{schema}: the target has no {collation}; the schema has the target's default"]


def test_schemas_that_differ_and_merge_are_reported(source: Server, target: Server, fresh_schema: FreshSchema) -> None:
    schemas = []
    for suffix, collation in (("_0", "latin1_bin"), ("_1", "utf8mb4_bin")):
        schemas.append(fresh_schema(source, suffix=suffix))
        source.sql(f"ALTER DATABASE `{schemas[-1]}` COLLATE {collation}")
        source.sql(f"CREATE TABLE t{suffix} (id INT PRIMARY KEY, c CHAR(3))", database=schemas[-1])
    prefix = schemas[0][:-2]
    task = {"routes": {"all": {"schema-pattern": f"{prefix}_*", "target-schema": f"{prefix}_all"}}}
    migration = Migration(target, {"one": source}, {"one": schemas}, f"{prefix}_meta", task, {"route-rules": ["all"]})
    result = migration.finish()
    assert default_of(target, f"{prefix}_all") == "latin1_bin"
    (note,) = [note for note in result["notes"] if note.startswith(f"{prefix}_all: ")]
    assert "utf8mb4_bin is left out" in note
    types = "SELECT character_set_name FROM information_schema.columns WHERE table_schema = %s AND column_name = 'c'"
    assert {charset for (charset,) in target.sql(types, [f"{prefix}_all"])} == {"latin1", "utf8mb4"}


def test_a_table_of_the_same_flavour_is_created_with_all_properties(
    mysql_source: Server, mysql_target: Server, schema: str
) -> None:
    keys = (
        "(CAST(j->>'$.a' AS CHAR(10)))",
        "(CAST(j->>'$.b' AS CHAR(10) CHARACTER SET latin1) COLLATE latin1_bin)",
        "(CAST(j->'$.c' AS UNSIGNED ARRAY))",
        "(CAST(j->'$.d' AS DECIMAL(9, 2)))",
        "(CAST(j->>'$.e' AS DATETIME(3)))",
        "(JSON_VALUE(j, '$.f' RETURNING SIGNED))",
    )
    listed = ", ".join(f"KEY k{number} ({key})" for number, key in enumerate(keys))
    tables = {
        "t": f"id INT PRIMARY KEY, j JSON, {listed}",
        "child": "id INT PRIMARY KEY, t INT DEFAULT (1 + 2), FOREIGN KEY (t) REFERENCES t (id), CHECK (t > 0)",
        "parts": "id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (9), "
        "PARTITION b VALUES LESS THAN MAXVALUE",
    }
    for name, definition in tables.items():
        mysql_source.sql(f"CREATE TABLE {name} ({definition})", database=schema)
    mysql_source.sql(
        "INSERT INTO t VALUES (1, '{}'); INSERT INTO child VALUES (1, 1); INSERT INTO parts VALUES (1), (9)",
        database=schema,
    )

    Migration.of(mysql_target, mysql_source, schema).finish()

    for name in tables:
        shown = [server.sql(f"SHOW CREATE TABLE {name}", database=schema) for server in (mysql_source, mysql_target)]
        assert shown[0] == shown[1]
    assert mysql_target.sql("SELECT COUNT(*) FROM parts", database=schema) == [(2,)]
