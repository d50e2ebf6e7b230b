"""The privileges that the precheck asks for are enough, and no more than what it lists is needed."""

from dataclasses import replace

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.precheck.run import run_precheck
from testbed import Server
from tests.integration.copy.migrations import Migration, differences
from tests.jobs import endpoint


def test_accounts_with_exactly_the_documented_grants_can_copy(source: Server, target: Server, schema: str) -> None:
    source.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 2);"
        "CREATE TABLE keyless (v INT); INSERT INTO keyless VALUES (3), (3);"
        "CREATE TABLE child (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id))",
        database=schema,
    )
    locks = f"GRANT LOCK TABLES ON {schema}.* TO dm_least;" if source.flavour == "mysql" else ""
    source.create_user("dm_least", "", privileges="USAGE")
    source.sql(f"GRANT SELECT ON {schema}.* TO dm_least; {locks}")
    target.create_user("dm_least", "", privileges="USAGE")
    for name in (schema, f"{schema}_meta"):
        target.sql(f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON {name}.* TO dm_least")
    if source.flavour == target.flavour == "mysql":  # another family gets no foreign key
        target.sql(f"GRANT REFERENCES ON {schema}.* TO dm_least")
    here, there = replace(source, user="dm_least"), replace(target, user="dm_least")
    migration = Migration.of(there, here, schema)
    try:
        report = run_precheck(
            migration.spec.task,
            [(SourceConfig.model_validate({"source-id": "one"}), endpoint("one", here))],
            endpoint("target", there),
        )
        assert report.passed, report

        (warning,) = [one.message for one in report.results if one.name == "replication_privilege"]
        assert "the result cannot name the start location" in warning

        result = migration.finish()

        assert result["sources"]["one"]["start"] == "unknown.000000:0"
        assert not result["sources"]["one"]["written_to_meanwhile"]
        found = differences(target, {f"{schema}.{name}": [(source, f"{schema}.{name}")] for name in ("t", "keyless")})
        assert found.equal, found
    finally:
        for server in (source, target):
            server.sql("DROP USER IF EXISTS dm_least@'%'")
