"""The binlog event filter: what becomes of an event of the log, by the rules of the task and of its source.

A rule matches tables by its patterns (without `table-pattern`: the schema itself and all of its tables), and events by
their names or their groups, in the order of its list, where the first that fits decides; and a DDL statement by its
text (`sql-pattern`), too. What matches a rule meets its action. A rule with `Do` is the other way round: what it does
*not* match is ignored. Ignore goes before Error, whichever rule comes first, and what no rule is about is done. All of
that is DM's; unlike there an event that is not known, and a pattern that cannot be read, are errors at the start.
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
ROW_EVENTS: Final = frozenset({"insert", "update", "delete"})

_TAKING_ROWS: Final = ("truncate table", "drop table", "truncate table partition", "drop table partition")
"""DDL that takes rows out of a table, or the table away; with `drop database` and `rename table`."""

_TAKING_NAMES: Final = (
    *("drop table", "rename table", "drop database", "drop column", "rename column", "alter table"),
    *("modify column", "value range decrease", "precision decrease", "remove auto increment"),
    *("modify default value", "modify charset", "modify collation", "modify columns order"),
)
"""DDL after which a table or a column of that name is there no more: a CHANGE goes by what else it changes."""

COMPATIBLE_DDL: Final = frozenset(
    {
        *("create database", "alter database", "create table", "create index", "create view", "drop view"),
        *("alter table", "add table partition"),
    }
)
"""The DDL that `incompatible ddl changes` does not stand for."""


class Verdict(Enum):
    DO = "Do"
    IGNORE = "Ignore"
    ERROR = "Error"


@dataclass(frozen=True)
class EventRule:
    """One compiled rule, and the tables that it is about."""

    tables: TableMatcher
    events: tuple[str, ...]
    texts: tuple[re.Pattern[str], ...]
    action: Verdict

    @classmethod
    def of(cls, rule: FilterRule, *, case_sensitive: bool) -> EventRule:
        """Compile a rule. Raises InvalidPattern."""
        return cls(
            TableMatcher.compile(rule.schema_pattern, rule.table_pattern, case_sensitive=case_sensitive),
            rule.events,
            tuple(re.compile(text, re.IGNORECASE) for text in rule.sql_pattern),
            Verdict(rule.action),
        )

    def may_ignore(self, event: str) -> bool:
        """Tell whether some statement that goes by this name is left out, whatever its text is."""
        if self.action is Verdict.DO:
            return bool(self.texts) or not _is_listed((event,), self.events)
        return self.action is Verdict.IGNORE and (bool(self.texts) or _is_listed((event,), self.events))

    def verdict(self, events: Sequence[str], sql: str) -> Verdict:
        """Return what the rule says of a change that goes by these names (none: only by its text)."""
        met = []
        if events:
            met.append(_is_listed(events, self.events))
        if sql and self.texts:
            met.append(any(text.search(sql) for text in self.texts))
        if self.action is Verdict.DO:
            return Verdict.DO if all(met) else Verdict.IGNORE
        return self.action if any(met) else Verdict.DO


@dataclass(frozen=True)
class EventFilter:
    """The compiled rules of one source, the task's and its own. Picklable."""

    rules: tuple[EventRule, ...] = ()

    @classmethod
    def from_config(cls, rules: Iterable[FilterRule], *, case_sensitive: bool) -> EventFilter:
        """Compile the rules. Raises InvalidPattern."""
        return cls(tuple(EventRule.of(rule, case_sensitive=case_sensitive) for rule in rules))

    def of_rows(self, name: TableName, event: RowEvent) -> Verdict:
        """Return what becomes of a change of a table's row."""
        return self._verdict(name, (event,), "")

    def may_keep_rows(self, name: TableName) -> bool:
        """Tell whether DDL may be left out that takes rows out of this table. A RENAME is about another table, too."""
        schema = TableName(name.schema, "")
        return any(
            rule.may_ignore("rename table")
            or (rule.tables.matches(name) and any(map(rule.may_ignore, _TAKING_ROWS)))
            or (rule.tables.matches(schema) and rule.may_ignore("drop database"))
            for rule in self.rules
        )

    def may_keep_names(self) -> bool:
        """Tell whether DDL may be left out that takes tables or columns away, so that the target has them still."""
        return any(rule.may_ignore(event) for rule in self.rules for event in _TAKING_NAMES)

    def of_ddl(self, names: Iterable[TableName], events: Sequence[str], sql: str) -> Verdict:
        """Return what becomes of a part of a DDL statement. `events`: its names, the first of which is in groups.

        `names`: the tables, or the schema, that this part is about; `sql`: the text of the whole statement.
        """
        return _strictest(self._verdict(name, events, sql.strip()) for name in names)

    def of_text(self, sql: str) -> Verdict:
        """Return what becomes of a statement that nobody understands: only rules about everything are asked."""
        return self._verdict(TableName("", ""), (), sql.strip())

    def _verdict(self, name: TableName, events: Sequence[str], sql: str) -> Verdict:
        return _strictest(rule.verdict(events, sql) for rule in self.rules if rule.tables.matches(name))


NO_FILTER: Final = EventFilter()


def _strictest(verdicts: Iterable[Verdict]) -> Verdict:
    found = {Verdict.DO, *verdicts}
    return next(one for one in (Verdict.IGNORE, Verdict.ERROR, Verdict.DO) if one in found)


def _is_listed(events: Sequence[str], listed: Iterable[str]) -> bool:
    """Tell whether a rule's list has the event, by a name or a group; the first that fits decides, also for no.

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
