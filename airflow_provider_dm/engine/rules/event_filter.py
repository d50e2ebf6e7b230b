"""The binlog event filter: the action for an event of the log, by the rules of the task and of its source.

A rule selects tables by its patterns (without `table-pattern`: the schema itself and all of its tables), and events by
type or group, in the order of its list, of which the first match decides; a DDL statement also by its text
(`sql-pattern`). The rule's action is applied to what it selects. A rule with `Do` is inverted: what it does *not*
select is ignored. Ignore takes precedence over Error, in any order of rules, and an event that no rule selects is
replicated. All of this is as in DM; unlike in DM an unknown event type and an invalid pattern are errors at the start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

from airflow_provider_dm.engine.config.pattern import TableMatcher
from airflow_provider_dm.engine.config.rule_models import FilterRule
from airflow_provider_dm.engine.mysql.identifiers import TableName

RowEvent: TypeAlias = Literal["insert", "update", "delete"]
ROW_EVENTS: Final[tuple[RowEvent, ...]] = ("insert", "update", "delete")

_REMOVING_ROWS: Final = ("truncate table", "drop table", "truncate table partition", "drop table partition")
"""DDL that removes rows of a table, or the table; in addition to `drop database` and `rename table`."""

_REMOVING_NAMES: Final = (
    *("drop table", "rename table", "drop database", "drop column", "rename column", "alter table"),
    *("modify column", "value range decrease", "precision decrease", "remove auto increment"),
    *("modify default value", "modify charset", "modify collation", "modify columns order"),
)
"""DDL after which a table or column of that name no longer exists; a CHANGE has one of the other types."""

COMPATIBLE_DDL: Final = frozenset(
    {
        *("create database", "alter database", "create table", "create index", "create view", "drop view"),
        *("alter table", "add table partition"),
    }
)
"""The DDL that the group `incompatible ddl changes` does not include."""


class EventAction(Enum):
    DO = "Do"
    IGNORE = "Ignore"
    ERROR = "Error"


@dataclass(frozen=True)
class EventRule:
    """A compiled rule and its tables."""

    tables: TableMatcher
    events: tuple[str, ...]
    texts: tuple[re.Pattern[str], ...]
    action: EventAction

    @classmethod
    def of(cls, rule: FilterRule, *, case_sensitive: bool) -> EventRule:
        """Compile a rule. Raises InvalidPattern."""
        return cls(
            TableMatcher.compile(rule.schema_pattern, rule.table_pattern, case_sensitive=case_sensitive),
            rule.events,
            tuple(re.compile(text, re.IGNORECASE) for text in rule.sql_pattern),
            EventAction(rule.action),
        )

    def may_ignore(self, event: str) -> bool:
        """Return True if a statement of this event type may be ignored, for some text of it."""
        if self.action is EventAction.DO:
            return bool(self.texts) or not _is_listed((event,), self.events)
        return self.action is EventAction.IGNORE and (bool(self.texts) or _is_listed((event,), self.events))

    def verdict(self, events: Sequence[str], sql: str) -> EventAction:
        """Return the rule's verdict on a change of these event types (none: only its text is compared)."""
        matches = []
        if events:
            matches.append(_is_listed(events, self.events))
        if sql and self.texts:
            matches.append(any(text.search(sql) for text in self.texts))
        if self.action is EventAction.DO:
            return EventAction.DO if all(matches) else EventAction.IGNORE
        return self.action if any(matches) else EventAction.DO


@dataclass(frozen=True)
class EventFilter:
    """The compiled rules of one source: those of the task and its own. Picklable."""

    rules: tuple[EventRule, ...] = ()

    @classmethod
    def from_config(cls, rules: Iterable[FilterRule], *, case_sensitive: bool) -> EventFilter:
        """Compile the rules. Raises InvalidPattern."""
        return cls(tuple(EventRule.of(rule, case_sensitive=case_sensitive) for rule in rules))

    def of_rows(self, name: TableName, event: RowEvent) -> EventAction:
        """Return the verdict on a change of a row of the table."""
        return self._verdict(name, (event,), "")

    def may_keep_rows(self, name: TableName) -> bool:
        """Return True if DDL that removes rows of this table may be ignored, or a RENAME of any table to its name."""
        schema = TableName(name.schema, "")
        return any(
            rule.may_ignore("rename table")
            or (rule.tables.matches(name) and any(map(rule.may_ignore, _REMOVING_ROWS)))
            or (rule.tables.matches(schema) and rule.may_ignore("drop database"))
            for rule in self.rules
        )

    def may_keep_names(self) -> bool:
        """Return True if DDL that removes tables or columns may be ignored, so that they remain in the target."""
        return any(rule.may_ignore(event) for rule in self.rules for event in _REMOVING_NAMES)

    def of_ddl(self, names: Iterable[TableName], events: Sequence[str], sql: str) -> EventAction:
        """Return the verdict on a part of a DDL statement. `events`: its types, the first of which belongs to groups.

        `names`: the tables, or the schema, of this part; `sql`: the text of the whole statement.
        """
        return _strictest(self._verdict(name, events, sql.strip()) for name in names)

    def of_text(self, sql: str) -> EventAction:
        """Return the verdict on a statement that cannot be parsed: only rules for all tables are applied."""
        return self._verdict(TableName("", ""), (), sql.strip())

    def _verdict(self, name: TableName, events: Sequence[str], sql: str) -> EventAction:
        return _strictest(rule.verdict(events, sql) for rule in self.rules if rule.tables.matches(name))


NO_FILTER: Final = EventFilter()


def _strictest(verdicts: Iterable[EventAction]) -> EventAction:
    actions = {EventAction.DO, *verdicts}
    return next(action for action in (EventAction.IGNORE, EventAction.ERROR, EventAction.DO) if action in actions)


def _is_listed(events: Sequence[str], listed: Iterable[str]) -> bool:
    """Return True if a rule's list includes the event, by type or group; the first match decides, even if negative.

    >>> _is_listed(["insert"], ["none ddl", "all dml"]), _is_listed(["drop table"], ["none ddl", "drop table"])
    (True, False)
    """
    kind = "dml" if events[0] in ROW_EVENTS else "ddl"
    for one in listed:
        if one in ("all", f"all {kind}") or one in events:
            return True
        if one in ("none", f"none {kind}"):
            return False
        if one == "incompatible ddl changes" and kind == "ddl" and events[0] not in COMPATIBLE_DDL:
            return True
    return False
