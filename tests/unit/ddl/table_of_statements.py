"""The table of statements: the value of each, or that it is unreadable; and the notation of values.

An entry of statements.txt is a line `## who writes it, flavour MODE,MODE`, the statement, and `=> ` with the value:
fields that have no default in their order, the others by name where they differ from it.
"""

from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path

from airflow_provider_dm.engine.ddl import lexer
from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.mysql.identifiers import TableName

FILE = Path(__file__).with_name("statements.txt")
MODES = {"PIPES_AS_CONCAT": 2, "IGNORE_SPACE": 8} | {
    name: getattr(lexer, name) for name in ("REAL_AS_FLOAT", "ANSI_QUOTES", "ORACLE", "MSSQL", "NO_BACKSLASH_ESCAPES")
}


@dataclass(frozen=True)
class Entry:
    """One entry of the table. `expected`: the value as `shown` writes it, or `Unreadable`."""

    head: str
    sql: str
    expected: str

    @property
    def sql_mode(self) -> int:
        _, _, modes = self.head.rpartition(", ")[2].partition(" ")
        return sum(MODES[mode] for mode in modes.split(",") if mode)

    @property
    def readable(self) -> bool:
        return self.expected != "Unreadable"


def entries() -> list[Entry]:
    found = []
    for text in FILE.read_text(encoding="utf-8").split("\n## ")[1:]:
        head, _, rest = text.partition("\n")
        sql, _, expected = rest.rpartition("\n=> ")
        found.append(Entry(head, sql, expected.strip()))
    return found


def meaning(sql: str, sql_mode: int) -> str:
    try:
        return shown(parse(sql, sql_mode, "shop"))
    except Unreadable:
        return "Unreadable"


def shown(value: object) -> str:
    """Return a value in few words.

    >>> shown(TableName("a", "b")), shown(("x", None, True))
    ('a.b', "['x', None, True]")
    """
    if isinstance(value, TableName):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, Enum):
        return value.name
    if not is_dataclass(value):
        return repr(value)
    parts = []
    for field in fields(value):
        content = getattr(value, field.name)
        if field.default is MISSING:
            parts.append(shown(content))
        elif content != field.default:
            parts.append(f"{field.name}={shown(content)}")
    return f"{type(value).__name__}({', '.join(parts)})"
