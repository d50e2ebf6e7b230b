"""Helpers of the tests of online DDL: rules, tables and a log in a few words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig, OnlineDdlConfig
from airflow_provider_dm.engine.ddl.errors import NotRead
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.statements import CreateTable, Statement
from airflow_provider_dm.engine.ddl.tracker import AS_SHOWN, Tracker, difference_of_copy
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.online_ddl.memory import LoggedText, OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.outcomes import Difference, GhostOutcome, StopAtDdl
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


def copies_of(tables: Mapping[TableName, Table]) -> Difference:
    """Compare by the model of a server's tables."""

    def difference(real: TableName, created: CreateTable) -> str | None:
        parts = [*map(_column, tables[real].columns), *map(_key, tables[real].unique_keys)]
        text = f"CREATE TABLE x ({', '.join(parts)}) ENGINE=InnoDB"
        tracker = Tracker.of(Server(Flavour.MARIADB, (11, 8, 0)), {real: text}, {real.schema: "utf8mb4_bin"})
        return difference_of_copy(tracker, real, created, AS_SHOWN)

    return difference


def _column(column: Column) -> str:
    collation = f" CHARACTER SET {column.charset} COLLATE {column.collation}" if column.charset else ""
    rest = f"AS ({column.expression})" if column.generated else "NULL" if column.nullable else "NOT NULL"
    return f"`{column.name}` {column.column_type}{collation} {rest}"


def _key(key: Index) -> str:
    parts = [f"`{name}`" + (f"({length})" if length else "") for name, length in key.parts]
    return f"{'PRIMARY KEY' if key.primary else f'UNIQUE KEY `{key.name}`'} ({', '.join(parts)})"


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
        memory, outcome = step(
            memory, parsed(sql), text, rules=of or rules(), tables=known, difference=copies_of(known)
        )
        assert not isinstance(outcome, StopAtDdl) or memory == before
        outcomes.append(outcome)
    return memory, outcomes


def last(*log: str, tables: Sequence[Table] = SHOP, of: BlockAllowRules | None = None) -> GhostOutcome:
    """Return the outcome of the last statement of a log."""
    return follow(OnlineDdls(), log, tables=tables, of=of)[1][-1]
