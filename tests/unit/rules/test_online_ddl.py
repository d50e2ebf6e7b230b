"""The recorded state of an online DDL, the ALTER that its RENAME stands for, and the cases in which it is unknown."""

import pytest

from airflow_provider_dm.engine.config.rule_models import OnlineDdlConfig
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import DropTables, Statement
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.online_ddl.memory import LoggedText, OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.outcomes import (
    ApplyDdl,
    GhostOutcome,
    OrdinaryDdl,
    SkipDdl,
    StopAtDdl,
    recorded,
)
from airflow_provider_dm.engine.rules.online_ddl.step import step
from tests.unit.rules.online_ddl_machine import SHOP, copies_of, follow, last, rules, table

LIKE = "CREATE TABLE _t_gho LIKE t"
ALTER = "ALTER TABLE _t_gho ADD COLUMN b int"
SWAP = "RENAME TABLE t TO _t_del, _t_gho TO t"
FULL = "CREATE TABLE `shop`.`_t_new` (`id` int NOT NULL, `a` int DEFAULT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB"


def applied(outcome: GhostOutcome) -> list[Statement]:
    assert isinstance(outcome, ApplyDdl), outcome
    return [one.statement for one in outcome.changes]


def parsed(*sql: str) -> list[Statement]:
    return [parse(one, 0, "shop") for one in sql]


def ghosts(memory: OnlineDdls) -> list[str]:
    return sorted(name.table for name in memory.ghosts)


# The outcome of a run


@pytest.mark.parametrize(
    "swap",
    [
        [SWAP],
        ["RENAME TABLE shop.t TO shop._t_old, shop._t_gho TO shop.t"],
        ["RENAME TABLE t TO aside, _t_gho TO t, aside TO _t_del"],
        ["RENAME TABLE t TO _t_del", "RENAME TABLE _t_gho TO t"],
        ["ALTER TABLE t RENAME _t_del", "ALTER TABLE _t_gho RENAME TO t"],
        ["RENAME TABLE _t_gho TO _t_new", "RENAME TABLE t TO _t_old, _t_new TO t"],
        ["RENAME TABLE t TO _t_del", "RENAME TABLE _t_del TO _t_old, _t_gho TO t"],
        ["RENAME TABLE t TO _t_del", "RENAME TABLE _t_del TO t", SWAP],
    ],
)
def test_a_ghost_that_becomes_the_real_table_applies_its_alters(swap: list[str]) -> None:
    more = ("ALTER TABLE _t_gho DROP COLUMN a", "CREATE INDEX i ON _t_gho (b)", "DROP INDEX i ON _t_gho")
    memory, outcomes = follow(OnlineDdls(), [LIKE, ALTER, *more, *swap])
    direct = ("ALTER TABLE t ADD COLUMN b int", "ALTER TABLE t DROP COLUMN a", "CREATE INDEX i ON t (b)")
    assert applied(outcomes[-1]) == parsed(*direct, "DROP INDEX i ON t")
    assert sum(isinstance(one, ApplyDdl) for one in outcomes) == 1
    assert memory == OnlineDdls()


def test_references_to_the_ghost_mean_the_real_table() -> None:
    alter = "ALTER TABLE {0} ADD COLUMN p int REFERENCES {0} (id), ADD CONSTRAINT f FOREIGN KEY (p) REFERENCES {0} (id)"
    assert applied(last(LIKE, alter.format("_t_gho"), SWAP)) == parsed(alter.format("t"))


def test_a_change_of_a_ghost_keeps_its_sql_mode() -> None:
    memory, _ = follow(OnlineDdls(), [LIKE])
    text = LoggedText('ALTER TABLE "_t_gho" ADD COLUMN "b" int', client_mode := 4, "shop")
    known = {one.name: one for one in SHOP}
    memory, _ = step(memory, text.read(), text, rules=rules(), tables=known, difference=copies_of(known))
    _, outcomes = follow(memory, [SWAP])
    assert isinstance(outcomes[0], ApplyDdl)
    assert [one.text.sql_mode for one in outcomes[0].changes] == [client_mode]


def test_a_restarted_online_ddl_counts_from_its_create_table() -> None:
    log = [LIKE, ALTER, "DROP TABLE IF EXISTS _t_gho", LIKE, "ALTER TABLE _t_gho ADD COLUMN c int", SWAP]
    assert applied(last(*log)) == parsed("ALTER TABLE t ADD COLUMN c int")
    replaced = [LIKE, ALTER, "CREATE OR REPLACE TABLE _t_gho LIKE t", "ALTER TABLE _t_gho ADD COLUMN c int", SWAP]
    assert applied(last(*replaced)) == parsed("ALTER TABLE t ADD COLUMN c int")


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE _t_ghc (id int)",
        "DROP TABLE IF EXISTS _t_ghc",
        "CREATE TABLE _t_del (id int)",
        "DROP TABLE _t_del, _t_old, _u_new",
        "TRUNCATE TABLE _t_old",
        "ALTER TABLE _t_old FROBNICATE",
        "TRUNCATE TABLE _t_gho",
        "RENAME TABLE _t_old TO _t_del",
        "RENAME TABLE IF EXISTS _t_old TO _t_del",
    ],
)
def test_statements_on_trash_tables_change_nothing(sql: str) -> None:
    memory, outcomes = follow(OnlineDdls(), [sql])
    assert isinstance(outcomes[0], SkipDdl)
    assert memory == OnlineDdls()


def test_a_drop_of_ghosts_and_other_tables_is_split() -> None:
    memory, outcomes = follow(OnlineDdls(), [LIKE, "DROP TABLE _t_gho, u, _t_old"])
    assert outcomes[-1] == OrdinaryDdl(DropTables((TableName("shop", "u"),)))
    assert memory == OnlineDdls()


@pytest.mark.parametrize("sql", ["ALTER TABLE t ADD b int", "RENAME TABLE t TO v", "CREATE DATABASE d", "FLUSH LOGS"])
def test_a_statement_without_tables_of_a_tool_is_ordinary(sql: str) -> None:
    assert last(sql) == OrdinaryDdl(parsed(sql)[0])


# What is not guessed


NOT_SEEN = "nothing is recorded of shop._t_gho"
REASONS = [
    ([SWAP], NOT_SEEN),
    ([ALTER, SWAP], "its CREATE TABLE is unknown"),
    (["RENAME TABLE t TO _t_del", "RENAME TABLE _t_gho TO t"], NOT_SEEN),
    ([LIKE, ALTER, "DROP TABLE _t_gho", SWAP], NOT_SEEN),
    ([LIKE, ALTER, SWAP, "RENAME TABLE t TO _t_old, _t_gho TO t"], NOT_SEEN),
    ([LIKE, ALTER, "RENAME TABLE _t_gho TO t"], "was not renamed to a name"),
    ([LIKE, ALTER, "DROP TABLE t", "RENAME TABLE _t_gho TO t"], "was not renamed to a name"),
    ([LIKE, ALTER, "RENAME TABLE t TO t_backup, _t_gho TO t"], "which trash-table-rules do not match"),
    ([LIKE, ALTER, "RENAME TABLE u TO _u_old, _t_gho TO u"], "not the table in its name"),
    (["CREATE TABLE _t_gho LIKE u", ALTER, SWAP], "was created like shop.u"),
    (["CREATE TABLE _t_gho AS SELECT * FROM t", SWAP], "was not created by CREATE TABLE"),
    (["CREATE TABLE IF NOT EXISTS _t_gho LIKE t", ALTER, SWAP], "IF NOT EXISTS"),
    ([LIKE, "ALTER TABLE _t_gho FROBNICATE", SWAP], "is not understood"),
    ([LIKE, "ALTER TABLE _t_gho COMMENT '\ufffd'", SWAP], "an unknown character"),
    ([LIKE, ALTER, "ALTER TABLE t ADD COLUMN z int", SWAP], "shop.t was altered after it"),
    ([LIKE, ALTER, "ALTER TABLE u EXCHANGE PARTITION p WITH TABLE t", SWAP], "shop.t was altered after it"),
    ([LIKE, ALTER, "TRUNCATE TABLE t", SWAP], "shop.t was truncated after it"),
    ([LIKE, ALTER, "ALTER TABLE t FROBNICATE", SWAP], "cannot be parsed after it"),
    ([LIKE, "ALTER TABLE _T_GHO ADD COLUMN b int", SWAP], "in another spelling"),
    (
        [LIKE, ALTER, "CREATE TABLE _t_new LIKE t", SWAP, "RENAME TABLE t TO _t_old, _t_new TO t"],
        "shop.t was replaced by shop._t_gho after it",
    ),
    ([LIKE, ALTER, "RENAME TABLE t TO _t_del", "DROP TABLE _t_del"], "no table has replaced it, and now it is drop"),
    ([LIKE, ALTER, "RENAME TABLE t TO _t_del", "CREATE TABLE t (id int)"], "no ghost has replaced it"),
    (["RENAME TABLE t TO _t_del", "RENAME TABLE _t_del TO archive.t"], "is renamed by way of shop._t_del to archive.t"),
    (["RENAME TABLE t TO _t_del", "RENAME TABLE _t_del TO u"], "its rows are not known"),
    (["RENAME TABLE t TO _t_new"], "which trash-table-rules do not match"),
    (["RENAME TABLE _t_old TO t"], "its rows are not known"),
    (["RENAME TABLE elsewhere.x TO _t_gho", SWAP], "it was elsewhere.x before"),
    (["RENAME TABLE _t_old TO _t_gho", SWAP], "it was shop._t_old before"),
    ([LIKE, ALTER, "RENAME TABLE IF EXISTS t TO _t_del, _t_gho TO t"], "RENAME … IF EXISTS"),
    (
        [
            LIKE,
            "CREATE TABLE _u_gho LIKE u",
            ALTER,
            "ALTER TABLE _u_gho ADD b int",
            f"{SWAP}, u TO _u_del, _u_gho TO u",
        ],
        "replaces shop.t and shop.u in one statement",
    ),
    ([LIKE, "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE _t_gho"], "it moves rows or names between"),
    ([LIKE, ALTER, "RENAME TABLE t TO _t_del", "ALTER TABLE _t_gho ADD c int, RENAME TO t"], "it moves rows or names"),
]


@pytest.mark.parametrize(("log", "why"), REASONS, ids=[why for _, why in REASONS])
def test_an_ambiguous_online_ddl_stops(log: list[str], why: str) -> None:
    of = rules(do_dbs=["shop"])
    _, outcomes = follow(OnlineDdls(), log, of=of)
    assert isinstance(outcomes[-1], StopAtDdl), outcomes[-1]
    assert why in outcomes[-1].why
    assert not any(isinstance(one, StopAtDdl) for one in outcomes[:-1])


@pytest.mark.parametrize(
    "full",
    [
        FULL.replace("`a` int", "`a` bigint"),
        FULL.replace("`a` int DEFAULT NULL", "`a` int NOT NULL"),
        FULL.replace("`a` int", "`b` int"),
        FULL.replace("`a` int DEFAULT NULL", "`a` int DEFAULT NULL, `b` int"),
        FULL.replace("(`id`)", "(`id`,`a`)"),
        FULL.replace("PRIMARY KEY (`id`)", "PRIMARY KEY (`id`), UNIQUE KEY `a` (`a`)"),
    ],
)
def test_a_change_in_the_create_table_of_the_ghost_stops_the_task(full: str) -> None:
    outcome = last(full, "ALTER TABLE _t_new ADD COLUMN z int", "RENAME TABLE t TO _t_old, _t_new TO t")
    assert isinstance(outcome, StopAtDdl)
    assert "its CREATE TABLE differs from" in outcome.why


@pytest.mark.parametrize(
    ("alters", "why"),
    [
        (["ADD COLUMN n bigint AUTO_INCREMENT UNIQUE"], "AUTO_INCREMENT"),
        (["ADD COLUMN n datetime DEFAULT CURRENT_TIMESTAMP"], "DEFAULT CURRENT_TIMESTAMP"),
        (["ADD COLUMN n datetime NULL ON UPDATE CURRENT_TIMESTAMP"], "ON UPDATE"),
        (["ADD COLUMN n char(36) DEFAULT (uuid())"], "DEFAULT (uuid())"),
        (["ADD COLUMN n timestamp"], "TIMESTAMP without DEFAULT"),
        (["RENAME COLUMN a TO b"], "RENAME COLUMN a"),
        (["DROP COLUMN a, ADD COLUMN a bigint"], "the column a is new"),
        (["CHANGE a b int", "CHANGE id a int"], "the column a is new"),
        (["DROP PARTITION p0"], "DropPartitions"),
        (["TRUNCATE PARTITION ALL"], "TruncatePartitions"),
        (["IMPORT TABLESPACE"], "SwapTablespace"),
    ],
)
def test_a_ddl_with_other_rows_stops(alters: list[str], why: str) -> None:
    outcome = last(LIKE, *(f"ALTER TABLE _t_gho {alter}" for alter in alters), SWAP)
    assert isinstance(outcome, StopAtDdl)
    assert why in outcome.why


@pytest.mark.parametrize(
    "alter",
    [
        "ADD COLUMN n int NOT NULL DEFAULT -7",
        "ADD COLUMN n varchar(9) DEFAULT 'it''s'",
        "ADD COLUMN n timestamp NULL",
        "ADD COLUMN n datetime DEFAULT '2000-01-01 00:00:00'",
        "ADD COLUMN n bit(3) DEFAULT b'101', ADD COLUMN m boolean DEFAULT true",
        "ADD COLUMN n int AS (a + 1) STORED",
        "MODIFY a bigint ON UPDATE CURRENT_TIMESTAMP",
        "CHANGE a b int",
        "ENGINE = InnoDB, FORCE",
        "PARTITION BY HASH (id) PARTITIONS 4",
    ],
)
def test_a_ddl_with_the_same_rows_is_applied(alter: str) -> None:
    assert applied(last(LIKE, f"ALTER TABLE _t_gho {alter}", SWAP)) == parsed(f"ALTER TABLE t {alter}")


@pytest.mark.parametrize(
    "sql", ["ALTER TABLE t AUTO_INCREMENT = 9", "ANALYZE TABLE t", "CREATE TABLE IF NOT EXISTS t (i int)"]
)
def test_harmless_statements_on_the_real_table_keep_its_ghost_valid(sql: str) -> None:
    assert isinstance(last(LIKE, ALTER, sql, SWAP), ApplyDdl)


# Whose tables they are


def test_a_table_is_a_tools_only_if_the_real_table_is_in_the_task() -> None:
    only = rules(do_tables=[{"db-name": "shop", "tbl-name": "_x_old"}])
    assert only.allows(TableName("shop", "_x_old"))
    assert not only.allows(TableName("shop", "x"))
    whole = rules(do_dbs=["shop"])
    assert not whole.allows(TableName("shop", "_x_old"))
    assert not whole.allows(TableName("shop", "__x_new"))
    assert whole.allows(TableName("shop", "x_old"))
    off = rules(do_dbs=["shop"], online_ddl=None)
    assert off.allows(TableName("shop", "_x_old"))


def test_other_rules_replace_dms() -> None:
    of = rules(online_ddl=OnlineDdlConfig(("^(.+)_shadow$",), ("^(.+)_gone$",)))
    log = ["CREATE TABLE t_shadow LIKE t", "ALTER TABLE t_shadow ADD b int", "RENAME TABLE t TO t_gone, t_shadow TO t"]
    assert applied(last(*log, of=of)) == parsed("ALTER TABLE t ADD b int")
    assert isinstance(last(LIKE, of=of), OrdinaryDdl)


def test_an_excluded_table_keeps_nothing() -> None:
    of = rules(do_tables=[{"db-name": "shop", "tbl-name": "u"}])
    memory, outcomes = follow(OnlineDdls(), [LIKE, ALTER, SWAP], of=of)
    assert memory == OnlineDdls()
    assert all(isinstance(one, OrdinaryDdl) for one in outcomes)


def test_nothing_is_remembered_while_it_is_off() -> None:
    memory, _ = follow(OnlineDdls(), [LIKE, ALTER])
    memory, outcomes = follow(memory, ["ALTER TABLE _t_gho ADD COLUMN c int"], of=rules(online_ddl=None))
    assert memory == OnlineDdls()
    assert isinstance(outcomes[0], OrdinaryDdl)
    memory, _ = follow(OnlineDdls(), [LIKE, ALTER])
    assert memory.under_rules(rules()) == memory
    assert memory.under_rules(rules(online_ddl=OnlineDdlConfig(("^(.+)_shadow$",)))) == OnlineDdls()


def test_a_name_with_an_unknown_character_is_no_ghost() -> None:
    assert isinstance(last("CREATE TABLE `_t\ufffd_gho` LIKE t"), OrdinaryDdl)


def test_a_dropped_schema_removes_its_ghosts() -> None:
    memory, outcomes = follow(OnlineDdls(), [LIKE, "DROP DATABASE shop"])
    assert memory == OnlineDdls()
    assert isinstance(outcomes[-1], OrdinaryDdl)


def test_a_ghost_of_a_table_that_the_task_does_not_have() -> None:
    log = ["CREATE TABLE _z_new (id int)", "RENAME TABLE _z_new TO z"]
    memory, outcomes = follow(OnlineDdls(), log, tables=[table("t")])
    assert outcomes[0] == recorded(TableName("shop", "_z_new"))
    assert isinstance(outcomes[1], StopAtDdl)
    assert ghosts(memory) == ["_z_new"]


# Tables that were copied later


@pytest.mark.parametrize(
    "log",
    [
        [SWAP],
        ["RENAME TABLE t TO _t_del", "RENAME TABLE _t_gho TO t"],
        ["RENAME TABLE t TO _t_del", "RENAME TABLE _t_del TO t"],
        ["RENAME TABLE t TO backup, _t_gho TO t"],
        ["RENAME TABLE t TO _t_del", "ALTER TABLE t ADD x int"],
    ],
)
def test_a_rename_of_tables_that_dm_has_applied_already_stops_nothing(log: list[str]) -> None:
    """A ghost of which nothing is remembered, as the task began under way of the tool."""
    memory, of = OnlineDdls(), rules()
    applied, known = [TableName("shop", name) for name in ("t", "backup")], {one.name: one for one in SHOP}
    for sql in log:
        text, copies = LoggedText(sql, 0, "shop"), copies_of(known)
        memory, outcome = step(
            memory, parse(sql, 0, "shop"), text, rules=of, tables=known, difference=copies, applied=applied
        )
        assert isinstance(outcome, SkipDdl | OrdinaryDdl), outcome
    assert memory == OnlineDdls()


def test_a_ghost_is_outdated_after_a_rename_that_dm_has_applied() -> None:
    memory, _ = follow(OnlineDdls(), ["CREATE TABLE _t_new LIKE t"])
    text = LoggedText(SWAP, 0, "shop")
    tables = {one.name: one for one in SHOP}
    memory, _ = step(
        memory,
        parse(SWAP, 0, "shop"),
        text,
        rules=rules(),
        tables=tables,
        difference=copies_of(tables),
        applied=[SHOP[0].name],
    )
    _, outcomes = follow(memory, ["RENAME TABLE t TO _t_old, _t_new TO t"])
    assert isinstance(outcomes[0], StopAtDdl)
