"""What the Test button says about a database: version, binlog, and which grants it lacks for which role.

A hint, not the precheck: privileges are read from `SHOW GRANTS` by their global form, so roles and grants on single
schemas are not seen, and the message says "not granted globally" rather than "missing".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from airflow_provider_dm.engine.mysql.binlog_status import BinlogSettings, binlog_settings
from airflow_provider_dm.engine.mysql.connection import ServerInfo, connected, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.hooks.errors import FlavourDiffers

# One of each group is enough: MariaDB renamed them, and understands some of the old names.
SOURCE_NEEDS: Final = (
    ("SELECT",),
    ("REPLICATION SLAVE", "REPLICATION REPLICA"),
    ("REPLICATION CLIENT", "BINLOG MONITOR"),
)
TARGET_NEEDS: Final = tuple(
    (name,) for name in ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX")
)

_GLOBAL_GRANT: Final = re.compile(r"^GRANT (?P<names>.+?) ON \*\.\* TO ", re.IGNORECASE)


def describe_server(endpoint: Endpoint, wanted: str | None) -> tuple[bool, str]:
    """Return (usable, one sentence or two). Raises what connecting raises, and FlavourDiffers."""
    with connected(endpoint) as session:
        info = server_info(session)
        if wanted is not None and info.flavour.value != wanted:
            raise FlavourDiffers(str(endpoint), wanted, info.flavour.value)
        granted = global_privileges(text(row[0]) for row in query(session, "SHOW GRANTS"))
        binlog = binlog_settings(session) if info.capabilities.writes_binlog else None
    return True, sentence(endpoint, info, granted, binlog)


def global_privileges(grants: Iterable[str]) -> frozenset[str]:
    """Return the privileges that hold everywhere; "ALL" stands for all of them.

    >>> sorted(global_privileges(["GRANT SELECT, REPLICATION SLAVE ON *.* TO `dm`@`%`", "GRANT ALL ON `a`.* TO `dm`"]))
    ['REPLICATION SLAVE', 'SELECT']
    """
    found: set[str] = set()
    for grant in grants:
        match = _GLOBAL_GRANT.match(grant)
        if match is not None:
            found |= {name.strip().upper() for name in match["names"].split(",")}
    return frozenset(found | ({"ALL"} if "ALL PRIVILEGES" in found else set()))


def lacking(granted: frozenset[str], needs: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the first name of every need that is not granted globally."""
    return () if "ALL" in granted else tuple(names[0] for names in needs if not granted.intersection(names))


def sentence(endpoint: Endpoint, info: ServerInfo, granted: frozenset[str], binlog: BinlogSettings | None) -> str:
    """Return what a person reads under the button."""
    as_source = _as_source(granted, binlog)
    as_target = _listed(lacking(granted, TARGET_NEEDS))
    server = f"{info.capabilities.title} {info.version} at {endpoint}"
    return f"{server}. As a source: {as_source}. As a target: {as_target}."


def _as_source(granted: frozenset[str], binlog: BinlogSettings | None) -> str:
    if binlog is None:
        return "not possible"
    if not binlog.log_bin:
        return "not possible, it writes no binlog (log_bin)"
    if binlog.format.upper() != "ROW":
        return f"not possible, its binlog_format is {binlog.format or 'unknown'}, not ROW"
    if binlog.row_image not in ("", "FULL"):
        return f"not possible, its binlog_row_image is {binlog.row_image}, not FULL"
    return _listed(lacking(granted, SOURCE_NEEDS))


def _listed(names: tuple[str, ...]) -> str:
    return f"not granted globally: {', '.join(names)}" if names else "ready"
