"""The key of a merged table by which rows are recorded (dm_row_owner), and what is said when it is another one now."""

from __future__ import annotations

import json

from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.rules.mapping import family, value_signature
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.target.owner_keys import noted_key
from airflow_provider_dm.engine.target.row_owner import RowOwner


class RecordedKeyChanged(DmError):
    source: str
    table: str
    target: str
    recorded: str
    now: str

    code = "DM-6085"
    scope = Scope.DOWNSTREAM
    what = (
        "{source}: which rows of {target} are those of {table} is recorded by its key {recorded}, and the key of "
        "{target} is {now}. By that the records would name rows of other tables, so nothing is removed or written."
    )
    hint = (
        "Give {target} the key {recorded} again until this source has caught up with the end of its load (its run "
        "shows `catch_up_mode: false`), or migrate with another task (another name) into an empty table."
    )


def recorded_key(target: Table) -> str:
    """Return what the records of a target's rows depend on: the columns of its key, and how their values look.

    Types that hold the same values in the same way are alike. "" for a table without a key.
    """
    if target.identity is None:
        return ""
    columns = [target.column(name) for name in target.identity.columns]
    return json.dumps([[one.name.lower(), family(one), *value_signature(one)[2:]] for one in columns])


def check_recorded_key(connection: Connection, owner: RowOwner, target: Table) -> None:
    """Check, before records of an owner are used, that they are of the target's key as it is now.

    Raises RecordedKeyChanged.
    """
    now = recorded_key(target)
    recorded = noted_key(connection, owner.ref, owner.number)
    if recorded is not None and recorded != now:
        names = (owner.ref.source, str(owner.table), str(target.name))
        raise RecordedKeyChanged(*names, _shown(recorded), _shown(now))


def _shown(key: str) -> str:
    """Show a key to people.

    >>> _shown('[["id", "integer", null]]'), _shown("")
    ('(id integer)', '(unknown)')
    """
    columns = json.loads(key) if key else []
    return (
        "(" + (", ".join(" ".join(str(part) for part in one if part is not None) for one in columns) or "unknown") + ")"
    )
