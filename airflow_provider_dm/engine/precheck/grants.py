r"""SHOW GRANTS as a value that answers whether the account has a privilege on an object. Pure.

A line is `GRANT privileges ON object TO account …`; a role's line has no ON and is ignored, as the lines of the
account include the privileges of its active roles. Schema names in grants are patterns (`shop\_%`). MariaDB's name of
REPLICATION CLIENT is BINLOG MONITOR; ALL includes everything except PROXY; SUPER includes the privileges into which it
was split."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(
    r"^(?P<verb>GRANT|REVOKE)\s+(?P<privileges>.+?)\s+ON\s+(?:TABLE\s+)?"
    r"(?P<schema>\*|`(?:[^`]|``)+`|\w+)\.(?P<table>\*|`(?:[^`]|``)+`|\w+)\s+(?:TO|FROM)\s",
    re.IGNORECASE | re.DOTALL,
)
_SPLIT: Final = re.compile(r",\s*(?![^(]*\))")
_EVERYTHING: Final = frozenset({"ALL PRIVILEGES", "ALL"})
_ALSO_BY: Final[dict[str, frozenset[str]]] = {
    "REPLICATION CLIENT": frozenset({"BINLOG MONITOR", "SUPER"}),
    "REPLICATION SLAVE": frozenset(),
    "RELOAD": frozenset({"FLUSH_TABLES"}),
}


@dataclass(frozen=True)
class Grant:
    """One line. `schema`, `table`: None for `*`."""

    privileges: frozenset[str]
    schema: str | None
    table: str | None
    revoked: bool = False

    def names(self, privilege: str) -> bool:
        """Return True if the line includes this privilege, on any object."""
        wanted = {privilege} | _ALSO_BY.get(privilege, frozenset()) | _EVERYTHING
        return bool(wanted & self.privileges)

    def covers(self, privilege: str, schema: str | None, table: str | None) -> bool:
        """Return True if this line grants (or revokes) the privilege on all of `schema`.`table`; None means all."""
        if not self.names(privilege):
            return False
        if self.schema is not None and (schema is None or not _pattern(self.schema).fullmatch(schema)):
            return False
        return self.table is None or self.table == table


@dataclass(frozen=True)
class Grants:
    lines: tuple[Grant, ...]

    @classmethod
    def parse(cls, lines: Iterable[str]) -> Grants:
        """Parse the lines of SHOW GRANTS; lines that are not grants on objects are ignored.

        >>> Grants.parse(["GRANT SELECT ON `shop`.* TO `dm`@`%`"]).allow("SELECT", "shop", "orders")
        True
        """
        return cls(tuple(grant for line in lines if (grant := _parse(line)) is not None))

    def allow(self, privilege: str, schema: str | None = None, table: str | None = None) -> bool:
        """Return True if the account has `privilege` on the table, on the whole schema, or (None) on everything."""
        given = any(line.covers(privilege, schema, table) for line in self.lines if not line.revoked)
        taken = any(line.covers(privilege, schema, table) for line in self.lines if line.revoked)
        return given and not taken

    def schemas(self, privilege: str) -> tuple[str, ...]:
        """Return the patterns of schemas in which the account has `privilege` on some table; "*" for all schemas.

        >>> Grants.parse(["GRANT SELECT ON `shop`.* TO `dm`", "GRANT USAGE ON *.* TO `dm`"]).schemas("SELECT")
        ('shop',)
        """
        given = dict.fromkeys(line.schema for line in self.lines if not line.revoked and line.names(privilege))
        return ("*",) if None in given else tuple(name for name in given if name is not None)


def _parse(line: str) -> Grant | None:
    match = _LINE.match(line.strip())
    if match is None:
        return None
    # A privilege on single columns, SELECT (a, b), does not count.
    privileges = frozenset(name.strip().upper() for name in _SPLIT.split(match["privileges"]) if "(" not in name)
    return Grant(privileges, _name(match["schema"]), _name(match["table"]), match["verb"].upper() == "REVOKE")


def _name(written: str) -> str | None:
    if written == "*":
        return None
    return written[1:-1].replace("``", "`") if written.startswith("`") else written


def _pattern(schema: str) -> re.Pattern[str]:
    r"""Return the pattern of a grant's schema name: `%` and `_` are wildcards unless a backslash precedes them."""
    tokens = re.findall(r"\\[%_\\]|.", schema, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return re.compile("".join(wild.get(token) or re.escape(token[-1]) for token in tokens), re.DOTALL)
