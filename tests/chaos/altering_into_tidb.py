"""Random DDL that TiDB can follow: without the statements that stop a task according to docs/how-to/into-tidb.md."""

import re
from dataclasses import dataclass
from typing import Final

from tests.chaos.altering import Life, Table

_CHANGED: Final = re.compile(r"(?:MODIFY|CHANGE|DROP COLUMN) `([^`]+)`")
_GIVEN_UP: Final = re.compile(r"(?:CHANGE|RENAME COLUMN|DROP COLUMN) `([^`]+)`")
_TAKEN: Final = re.compile(r"CHANGE `[^`]+` `([^`]+)`|RENAME COLUMN `[^`]+` TO `([^`]+)`")
_DEFAULT_OF_BYTES: Final = re.compile(r"varbinary\(\d+\)[^,]* DEFAULT '[^']*[^\x00-\x7f]")


@dataclass
class LifeIntoTidb(Life):
    """Such a history of a few tables."""

    def _ddl(self, tables: list[Table]) -> list[str]:
        while True:
            statements = super()._ddl(tables)
            if not any(_stops(sql, table) for sql in statements for table in [*tables, Table("")] if table.name in sql):
                return statements


def _stops(sql: str, table: Table) -> bool:
    """Return True if TiDB may reject the statement about this table."""
    clustered = table.keys.get("PRIMARY", [])
    kinds = {one.name: one.kind for one in table.columns}
    members = {name for name, kind in kinds.items() if kind.startswith(("enum", "set"))}
    if "DROP PRIMARY KEY" in sql or _DEFAULT_OF_BYTES.search(sql):
        return True
    if "CONVERT TO" in sql and (members or any("char" in kinds[name] for name in clustered)):
        return True
    taken = {name for found in _TAKEN.findall(sql) for name in found if name}
    return not {*clustered, *members}.isdisjoint(_CHANGED.findall(sql)) or not taken.isdisjoint(_GIVEN_UP.findall(sql))
