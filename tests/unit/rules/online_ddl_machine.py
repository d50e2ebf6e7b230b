"""Helpers of the tests of online DDL: rules, tables and a log in a few words."""

from collections.abc import Iterable, Sequence
from typing import Any

from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig, OnlineDdlConfig
from airflow_provider_dm.engine.ddl.errors import NotRead
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import Statement
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.online_ddl.memory import LoggedText, OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.outcomes import GhostOutcome, StopAtDdl
from airflow_provider_dm.engine.rules.online_ddl.step import step
from airflow_provider_dm.engine.schema.model import Column, Index, Table

DM = OnlineDdlConfig()


def rules(*, online_ddl: OnlineDdlConfig | None = DM, case_sensitive: bool = False, **lists: Any) -> BlockAllowRules:
    config = BlockAllowConfig.model_validate({key.replace("_", "-"): value for key, value in lists.items()})
    return BlockAllowRules.from_config(
        config, case_sensitive=case_sensitive, meta_schema="dm_meta", online_ddl=online_ddl
    )


def table(name: str) -> Table:
    """Return `shop.name` as CREATE TABLE `name` (id int NOT NULL PRIMARY KEY, a int) makes it."""
    columns = (Column("id", 0, "int", "int", False), Column("a", 1, "int", "int", True))
    return Table(TableName("shop", name), columns, (Index("PRIMARY", ("id",), prefixes=(None,)),))


SHOP = (table("t"), table("u"))


def parsed(sql: str, sql_mode: int = 0, schema: str = "shop") -> Statement | NotRead:
    try:
        return parse(sql, sql_mode, schema)
    except NotRead as error:
        return error


def follow(
    memory: OnlineDdls, log: Iterable[str], *, tables: Sequence[Table] = SHOP, of: BlockAllowRules | None = None
) -> tuple[OnlineDdls, list[GhostOutcome]]:
    """Take the statements of a log one after the other, also after a Stop."""
    outcomes: list[GhostOutcome] = []
    known = {one.name: one for one in tables}
    for sql in log:
        text = LoggedText(sql, 0, "shop")
        before = memory
        memory, outcome = step(memory, parsed(sql), text, rules=of or rules(), tables=known)
        assert not isinstance(outcome, StopAtDdl) or memory == before
        outcomes.append(outcome)
    return memory, outcomes


def last(*log: str, tables: Sequence[Table] = SHOP, of: BlockAllowRules | None = None) -> GhostOutcome:
    """Return the outcome of the last statement of a log."""
    return follow(OnlineDdls(), log, tables=tables, of=of)[1][-1]
