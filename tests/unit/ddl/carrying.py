"""What a target runs for a statement of the source. Everything in `shop` goes to `one`, but for `shop.ex_…`; `t_1` and
`t_2` are merged into `t`."""

from collections.abc import Mapping
from typing import Any

from airflow_provider_dm.engine.ddl import target_definitions
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import CreateTable
from airflow_provider_dm.engine.ddl.target_statements import TargetStatements, for_target
from airflow_provider_dm.engine.ddl.write import statement_sql
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName

MYSQL, MARIADB, TIDB = Flavour.MYSQL, Flavour.MARIADB, Flavour.TIDB
UTF8_BIN = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
Way = tuple[Flavour, Flavour]
SAME: list[Way] = [(MYSQL, MYSQL), (MARIADB, MARIADB)]
ACROSS: list[Way] = [(MYSQL, MARIADB), (MARIADB, MYSQL)]
ALL = [*SAME, *ACROSS]


def allows(table: TableName) -> bool:
    return table.schema == "shop" and not table.table.startswith("ex_")


def route(table: TableName) -> TableName:
    return TableName("one", "t" if table.table in ("t_1", "t_2") else table.table)


def carried(sql: str, way: Way = (MYSQL, MYSQL), *, sql_mode: int = 0, columns: Mapping[str, str] | None = None,
            **more: Any) -> TargetStatements:  # fmt: skip
    """`columns`: as the source has resolved them, in the notation of CREATE TABLE."""
    resolved = parse(
        f"CREATE TABLE t ({', '.join(f'`{k}` {v}' for k, v in (columns or {'x': 'int'}).items())})", 0, "s"
    )
    assert isinstance(resolved, CreateTable)
    known = {column.name: column for column in resolved.definition.columns}
    between = target_definitions.ConversionContext(
        sql_mode=sql_mode,
        source=way[0],
        target_can=CAPABILITIES[way[1]],
        route=route,
        allows=allows,
        resolve=lambda table, column: known.get(column),
        **more,
    )
    return for_target(parse(sql, sql_mode, "shop"), between)


def written(sql: str, way: Way = (MYSQL, MYSQL), **more: Any) -> list[str]:
    mode = more.get("sql_mode", 0)
    texts = [statement_sql(one, mode, way[1]) for one in carried(sql, way, **more).statements]
    return [text.replace("`", "").replace("( ", "(").replace(" )", ")").replace(" , ", ", ") for text in texts]
