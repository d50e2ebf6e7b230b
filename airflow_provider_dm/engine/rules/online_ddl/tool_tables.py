r"""The tables that an online DDL tool creates for the table that it changes, recognised by their names.

    shop._t_gho, shop._t_new               ─▶ GHOST   gets the new definition and the rows, and becomes shop.t
    shop._t_ghc, shop._t_del, shop._t_old  ─▶ TRASH   the tool's log, or the former shop.t
    shop.t                                 ─▶ REAL

Only the name distinguishes them, and an ordinary table may have such a name. As in DM it is a tool's table if the rules
allow the table in its name, whether that exists or not; otherwise it is an ordinary table. So `_x_old`, named in
do-tables without `x`, is migrated, and in a task of the whole schema it is not, unless other rules or
`online-ddl: false` are configured.

pt-online-schema-change puts another `_` before a name that is taken, so `__t_new` may belong to `_t` or `t`; only its
RENAME decides (`real_tables`).
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
    """The role of a table for a tool."""

    REAL = "no tool's"
    GHOST = "replaces a real table"
    TRASH = "not needed"


@dataclass(frozen=True)
class ToolTables:
    """The compiled rules; without rules there are no tools' tables. Picklable."""

    shadow: tuple[re.Pattern[str], ...] = ()
    trash: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def of(cls, config: OnlineDdlConfig, *, case_sensitive: bool) -> ToolTables:
        """Compile the rules, which were validated when the task was read."""
        flags = re.DOTALL if case_sensitive else re.DOTALL | re.IGNORECASE
        return cls(
            tuple(re.compile(rule, flags) for rule in config.shadow),
            tuple(re.compile(rule, flags) for rule in config.trash),
        )

    def __bool__(self) -> bool:
        return bool(self.shadow or self.trash)

    def kind_of(self, name: TableName, allows: Callable[[TableName], bool] = lambda _: True) -> TableKind:
        """Return the kind of a table. `allows`: whether the task has a table of this name, by its lists alone.

        >>> tools = ToolTables.of(OnlineDdlConfig(), case_sensitive=False)
        >>> tools.kind_of(TableName("s", "_t_gho")), tools.kind_of(TableName("s", "t_gho"))
        (<TableKind.GHOST: 'replaces a real table'>, <TableKind.REAL: "no tool's">)
        """
        for rules, kind in ((self.shadow, TableKind.GHOST), (self.trash, TableKind.TRASH)):
            if any(map(allows, _named(rules, name))):
                return kind
        return TableKind.REAL

    def real_tables(self, ghost: TableName) -> tuple[TableName, ...]:
        """Return the tables whose ghost this may be.

        >>> [one.table for one in ToolTables.of(OnlineDdlConfig(), case_sensitive=False).real_tables(TableName("s", "__t_new"))]
        ['_t', 't']
        """  # noqa: E501
        return tuple(_named(self.shadow, ghost))


def _named(rules: tuple[re.Pattern[str], ...], name: TableName) -> Iterator[TableName]:
    for rule in rules:
        if (match := rule.search(name.table)) and match[1]:
            for bare in (match[1][dropped:] for dropped in range(_leading(match[1]) + 1)):
                yield TableName(name.schema, bare)


def _leading(name: str) -> int:
    """Count the leading `_` of a name, if something follows them."""
    return len(name) - len(name.lstrip("_")) if name.strip("_") else 0


NO_TOOLS: Final = ToolTables()
"""`online-ddl: false`."""
