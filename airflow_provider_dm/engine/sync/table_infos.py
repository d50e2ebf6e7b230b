"""What DM's checkpoint says of tables' definitions, kept from one DDL statement to the next: most are the same then."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_dm.engine.ddl.server import CannotTrack, Server
from airflow_provider_dm.engine.ddl.table_info import NotMapped
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.write_table_info import table_info
from airflow_provider_dm.engine.mysql.identifiers import TableName

log = logging.getLogger(__name__)


@dataclass
class TableInfos:
    """The TableInfo of each table that was last asked for, with the CREATE TABLE that it was made of."""

    _collations: Mapping[str, str] = field(default_factory=dict, init=False)
    _known: Mapping[TableName, tuple[str, str | None]] = field(default_factory=dict, init=False)

    def of(
        self, server: Server, definitions: Mapping[TableName, str], collations: Mapping[str, str]
    ) -> dict[TableName, str | None]:
        """Return the TableInfo of each of these tables as JSON; None: TiDB has no such.

        `collations`: the default of each schema. `server`: always the same.
        """
        known = self._known if collations == self._collations else {}
        found: dict[TableName, tuple[str, str | None]] = {}
        for name, sql in definitions.items():
            before = known.get(name)
            found[name] = before if before and before[0] == sql else (sql, _made(server, name, sql, collations))
        self._collations, self._known = dict(collations), found
        return {name: info for name, (_, info) in found.items()}


def _made(server: Server, name: TableName, sql: str, collations: Mapping[str, str]) -> str | None:
    try:
        tracker = Tracker.of(server, {name: sql}, collations)
        return json.dumps(table_info(name, tracker.definition(name)), ensure_ascii=False)
    except (CannotTrack, NotMapped) as error:
        log.debug("DM's checkpoint does not say what %s is: %s", name, error)
        return None
