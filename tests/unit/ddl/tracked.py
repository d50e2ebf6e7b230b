"""Tables as a tracker has them, in short forms for tests."""

from dataclasses import replace

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import STRICT_ALL_TABLES, Server, SessionDefaults
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Table

MYSQL = Server(Flavour.MYSQL, (9, 7, 0))
MYSQL_5 = Server(Flavour.MYSQL, (5, 7, 44))
MARIADB = Server(Flavour.MARIADB, (10, 11, 8))
SERVERS = [MYSQL, MYSQL_5, MARIADB]
SESSION = SessionDefaults(STRICT_ALL_TABLES, server_collation="utf8mb4_bin", explicit_timestamp_defaults=True)
T = TableName("shop", "t")
U = TableName("shop", "u")


def after(*statements: str, server: Server = MYSQL, session: SessionDefaults = SESSION) -> Tracker:
    tracker = Tracker.of(server, {}, {"shop": "utf8mb4_bin"})
    for statement in statements:
        tracker = tracker.after(parse(statement, session.sql_mode, "shop"), session)
    return tracker


def table_of(definition: str, name: TableName = T) -> Table:
    """Return the table of `CREATE TABLE name (definition)`."""
    session = replace(SESSION, sql_mode=0)
    statement = parse(f"CREATE TABLE {name.quoted()} ({definition})", session.sql_mode, name.schema)
    return Tracker.of(MYSQL, {}, {name.schema: "utf8mb4_bin"}).after(statement, session).table(name)


def columns(tracker: Tracker, name: TableName = T) -> list[str]:
    return [f"{column.name} {column.column_type}" for column in tracker.table(name).columns]


def names(tracker: Tracker, name: TableName = T) -> str:
    return " ".join(column.name for column in tracker.table(name).columns)


def collations(tracker: Tracker, name: TableName = T) -> list[str | None]:
    return [column.collation for column in tracker.table(name).columns]


def nullable(tracker: Tracker) -> str:
    return " ".join(column.name for column in tracker.table(T).columns if column.nullable)


def keys(tracker: Tracker, name: TableName = T) -> list[str]:
    return [f"{key.name}({','.join(key.columns)})" for key in tracker.table(name).unique_keys]


def lines(tracker: Tracker, word: str, name: TableName = T) -> list[str]:
    """The lines of CREATE TABLE with this word, less densely written there than here."""
    shown = tracker.create_sql(name).replace("`", "").replace("( ", "(").replace(" )", ")").replace(" , ", ",")
    return [line.strip(" ,") for line in shown.splitlines() if word in line]
