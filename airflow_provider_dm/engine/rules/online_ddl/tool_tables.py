r"""The tables that an online DDL tool makes beside the table that it changes, told by their names.

    shop._t_gho, shop._t_new               ─▶ GHOST   gets the new definition and the rows, and becomes shop.t
    shop._t_ghc, shop._t_del, shop._t_old  ─▶ TRASH   the tool's notes, or what shop.t was before
    shop.t                                 ─▶ REAL

A name is all that there is to go by, and a business table may have such a name. As in DM it is a tool's table if the
rules allow the table that it would stand for, whether that exists or not; otherwise it is a table like any other. So
`_x_old`, named in do-tables without `x`, is migrated, and in a task of the whole schema it is not: who needs it gives
other rules, or `online-ddl: false`.

pt-online-schema-change puts another `_` in front of a name that is taken, so `__t_new` may stand for `_t` or for `t`;
which of them, only its RENAME tells (`real_tables`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_provider_dm.engine.config.rule_models import OnlineDdlConfig
from airflow_provider_dm.engine.mysql.identifiers import TableName


class TableKind(Enum):
    """Part that a table plays for a tool."""

    REAL = "no tool's"
    GHOST = "to take the place of a real one"
    TRASH = "of rows that nobody needs"


@dataclass(frozen=True)
class ToolTables:
    """Compiled rules, none of which: there are no tools. Picklable."""

    shadow: tuple[re.Pattern[str], ...] = ()
    trash: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def of(cls, config: OnlineDdlConfig, *, case_sensitive: bool) -> ToolTables:
        """Compile the rules, which are valid since the task was read."""
        flags = re.DOTALL if case_sensitive else re.DOTALL | re.IGNORECASE
        return cls(
            tuple(re.compile(rule, flags) for rule in config.shadow),
            tuple(re.compile(rule, flags) for rule in config.trash),
        )

    def __bool__(self) -> bool:
        return bool(self.shadow or self.trash)

    def kind_of(self, name: TableName, allows: Callable[[TableName], bool] = lambda _: True) -> TableKind:
        """Tell what a table is. `allows`: whether the task has a table of this name, by its lists alone.

        >>> tools = ToolTables.of(OnlineDdlConfig(), case_sensitive=False)
        >>> tools.kind_of(TableName("s", "_t_gho")), tools.kind_of(TableName("s", "t_gho"))
        (<TableKind.GHOST: 'to take the place of a real one'>, <TableKind.REAL: "no tool's">)
        """
        for rules, kind in ((self.shadow, TableKind.GHOST), (self.trash, TableKind.TRASH)):
            if any(map(allows, _named(rules, name))):
                return kind
        return TableKind.REAL

    def real_tables(self, ghost: TableName) -> tuple[TableName, ...]:
        """Return the tables that a ghost may stand for.

        >>> [one.table for one in ToolTables.of(OnlineDdlConfig(), case_sensitive=False).real_tables(TableName("s", "__t_new"))]
        ['_t', 't']
        """  # noqa: E501
        return tuple(_named(self.shadow, ghost))


def _named(rules: tuple[re.Pattern[str], ...], name: TableName) -> Iterator[TableName]:
    for rule in rules:
        if (found := rule.search(name.table)) and found[1]:
            for bare in (found[1][dropped:] for dropped in range(_leading(found[1]) + 1)):
                yield TableName(name.schema, bare)


def _leading(name: str) -> int:
    """Count the `_` in front of a name, of which there is something behind."""
    return len(name) - len(name.lstrip("_")) if name.strip("_") else 0


NO_TOOLS: Final = ToolTables()
"""`online-ddl: false`."""
