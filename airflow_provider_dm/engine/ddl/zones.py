"""The part of its session's time zone on which a statement depends, so that it has the same result in the target.

ADD d datetime DEFAULT now()                      the offset at the second of the statement, if there are rows
ADD t timestamp DEFAULT '2024-07-01 12:00:00'     the offset at that local time
ADD d datetime DEFAULT (t), ADD g date AS (t)     the zone's rules, if t is a TIMESTAMP; if it is a TIME, the second
ADD g timestamp AS (d)                            the zone's rules
MODIFY d timestamp, MODIFY t date                 the zone's rules: each row has its own local time
MODIFY v datetime                                 likewise, as a text may have an offset of its own: '… 12:00:00+05:30'
MODIFY t timestamp(3), ADD i int, ADD KEY (t)     nothing
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from airflow_provider_dm.engine.ddl.column_types import BLOBS, MEMBERS, TEXT_SIZES
from airflow_provider_dm.engine.ddl.conversions import Pair, column_pairs
from airflow_provider_dm.engine.ddl.statements import ColumnDefinition, Repartition, Spec, TableDefinition
from airflow_provider_dm.engine.ddl.target_code import is_moment
from airflow_provider_dm.engine.mysql.identifiers import quote

_LOCAL_TIME: Final = re.compile(r"'([0-9]{4}-[0-9]{2}-[0-9]{2}(?: [0-9]{2}:[0-9]{2}:[0-9]{2})?)(?:\.[0-9]*)?'")
_NO_TIME: Final = re.compile(r"'?0(?:000-00-00(?: 00:00:00)?)?(?:\.0*)?'?|NULL", re.IGNORECASE)
_IN_PARTITIONS: Final = re.compile(r"unix_timestamp\s*\(\s*([^()]*)", re.IGNORECASE)
_COLUMN: Final = re.compile(r"`(?:[^`]|``)+`|[a-z_$][\w$]*", re.IGNORECASE)
_DAYS: Final = frozenset({"date", "datetime"})
_LOCAL: Final = _DAYS | {"time"}
_WITH_OFFSET: Final = re.compile(r"'.*[-+][0-9]{1,2}:[0-9]{2}'")
_STRINGS: Final = frozenset({"char", "varchar", *TEXT_SIZES, "binary", "varbinary", *BLOBS, *MEMBERS, "json"})


@dataclass(frozen=True)
class ZoneNeed:
    """The part of a time zone that a statement depends on; false if it depends on none.

    `rules`: descriptions of what depends on all rules of the zone. `moment`: it depends on the offset at the second of
    the statement. `local_times`: it depends on the offsets at these local times.
    """

    rules: tuple[str, ...] = ()
    moment: bool = False
    local_times: frozenset[str] = frozenset()

    def __or__(self, other: ZoneNeed) -> ZoneNeed:
        return ZoneNeed(self.rules + other.rules, self.moment or other.moment, self.local_times | other.local_times)

    def __bool__(self) -> bool:
        return bool(self.rules or self.moment or self.local_times)


NO_ZONE: Final = ZoneNeed()
AT_ITS_SECOND: Final = ZoneNeed(moment=True)
ANY_RULES: Final = ZoneNeed(("it is a user's statement",))


def need_of_alter(before: TableDefinition, after: TableDefinition, specs: Sequence[Spec], sql_mode: int) -> ZoneNeed:
    """Return the need of an ALTER TABLE with these clauses. `before`, `after`: the table before and after it."""
    parts = [_of_partitions(spec.what) for spec in specs if isinstance(spec, Repartition)]
    columns = (_of_column(pair, after.columns, sql_mode) for pair in column_pairs(before, after, specs))
    return reduce(ZoneNeed.__or__, (*columns, *parts), NO_ZONE)


def need_of_create(table: TableDefinition, sql_mode: int) -> ZoneNeed:
    """Return the need of a CREATE TABLE: there are no rows yet."""
    parts = _of_partitions(table.partitioning or "")
    return reduce(ZoneNeed.__or__, (_of_default(column, sql_mode) for column in table.columns), parts)


def _of_column(pair: Pair, columns: Sequence[ColumnDefinition], sql_mode: int) -> ZoneNeed:
    old, new = pair
    name = quote(new.name)
    if new.generated is not None:
        if old is not None and old.generated == new.generated:
            return NO_ZONE
        is_local = ZoneNeed((f"{name} is a TIMESTAMP that is computed",)) if new.type.name == "timestamp" else NO_ZONE
        return is_local or _of_code(name, new.generated, columns)
    if old is None:
        if new.default is None or not is_moment(new.default, sql_mode):
            code = new.default or ""
            code = code if "(" in code and code[0] not in "'\"" else ""
            return _of_default(new, sql_mode) | _of_code(name, code, columns)
        return AT_ITS_SECOND if new.type.name != "timestamp" else NO_ZONE
    if (old.type.name == "timestamp") is not (new.type.name == "timestamp"):
        return ZoneNeed((f"{name} becomes {new.type.name}, and was {old.type.name}",))
    if old.type.name in _STRINGS and new.type.name in _LOCAL:  # MySQL reads '2024-07-01 12:00:00+05:30'
        return ZoneNeed((f"{name} becomes {new.type.name}, and was {old.type.name}, whose texts may have offsets",))
    need = _of_default(new, sql_mode) if new.default != old.default else NO_ZONE
    return need | AT_ITS_SECOND if old.type.name == "time" and new.type.name in _DAYS else need


def _of_code(name: str, code: str, columns: Sequence[ColumnDefinition]) -> ZoneNeed:
    """Return the need of a column that is computed from other columns: a TIME becomes a time of the present day."""
    used = {column.type.name for column in columns if re.search(rf"\b{re.escape(column.name)}\b", code, re.IGNORECASE)}
    if "timestamp" in used:
        return ZoneNeed((f"{name} is computed from a TIMESTAMP",))
    return AT_ITS_SECOND if "time" in used else NO_ZONE


def _of_default(column: ColumnDefinition, sql_mode: int) -> ZoneNeed:
    """Return the need of a column's default: the default of a TIMESTAMP is a local time."""
    default = column.default
    if default is None or is_moment(default, sql_mode):
        return NO_ZONE
    if column.type.name in _LOCAL and _WITH_OFFSET.fullmatch(default):
        return ZoneNeed((f"the default {default} of {quote(column.name)} has an offset",))
    if column.type.name != "timestamp":
        return NO_ZONE
    if _NO_TIME.fullmatch(default):
        return NO_ZONE
    found = _LOCAL_TIME.fullmatch(default)
    if found is None:
        return ZoneNeed((f"the default {default} of {quote(column.name)} is a local time",))
    return ZoneNeed(local_times=frozenset({found[1]}))


def _of_partitions(code: str) -> ZoneNeed:
    arguments = [argument.strip().replace('"', "'") for argument in _IN_PARTITIONS.findall(code)]
    found = [_LOCAL_TIME.fullmatch(argument) for argument in arguments if not _COLUMN.fullmatch(argument)]
    if not all(found):
        return ZoneNeed(("partitions begin at a local time",))
    return ZoneNeed(local_times=frozenset(match[1] for match in found if match is not None))
