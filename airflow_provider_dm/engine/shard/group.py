"""The sharding group of one source: the shards of one merged table, and the DDL that each of them has executed.

All shards of a merged table have to execute the same DDL, each at its own location of the log. The target executes it
once, after the last shard. Until then a shard that has executed it is *held*: its rows have a format that the target
does not have yet, so the sync skips them, and applies them afterwards (`Resync`). For example two shards and one DDL:

    log       t1: ALTER        t1: rows (2)     t2: rows (1)     t2: ALTER        t1, t2: rows (2)
    location  10               15               20               30               40
    t1        ready ─────────▶ held ───────────────────────────▶ resolved: the rows from 10 to 30 are applied now
    t2        ready            ready            applied          resolved: there is nothing to apply

    state of a shard    its rows             next state
    ready (no items)    are applied          held, after a DDL statement of its own (`after_ddl`)
    created while other shards are held      ready or held, by its definition (`after_create`)
    held (items)        are skipped          in re-sync, with one item less, when the target has executed it (`resolve`)
    in re-sync          are in `Resync`      when these are applied (`after_resync`): ready, or held if items are left

The pending DDL statements that a shard has executed are its *items*, in order. The longest list of all shards is the
group's sequence; every other list has to be a prefix of it. Only the first item of all lists can be resolved. Any
number of statements may be pending: t1 may execute ten of them before t2 executes the first.

A held shard may be renamed: its rows are read under the name that they have in the log, and the shard is identified by
its newest name. A held shard that is dropped remains a member, with a name that no table can have, until its held-back
rows are applied. These rows stay in the target, like the rows of any dropped shard. Pending DDL that it has not
executed does not wait for it.

This module has values only; engine.sync skips the rows and communicates with the other sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from pydantic import PlainSerializer, PlainValidator

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.mapping import value_signature
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.shard.errors import ShardDdlOutOfSequence

Json = dict[str, Any]
StoredTable = Annotated[
    Table,
    PlainSerializer(Table.to_json),
    PlainValidator(lambda value: value if isinstance(value, Table) else Table.from_json(value)),
]
"""A table as it is stored in JSON."""

_LONGEST_TABLE_PART: Final = 24
"""Characters of a table's name in that of a dropped table; with the location a name has at most 64."""


@dataclass(frozen=True)
class NewName:
    """A new name of a held shard for its rows after `end`; None: it was dropped. `at`, `end`: see `ShardDdl`."""

    at: Location
    end: Location
    name: TableName | None


@dataclass(frozen=True)
class ShardDdl:
    """A DDL that a shard has executed. `at`, `end`: the locations at which its transaction begins and ends.

    `ddls`: the target's statements for it, the same texts for all shards. `table`: the shard's definition after it.
    `needs`: the location from which the log is needed to read the shard's rows after it. `how`: the session variables
    and other context of its execution. `names`: later names of the shard, up to its next DDL.
    """

    at: Location
    end: Location
    ddls: tuple[str, ...]
    table: StoredTable
    needs: Location
    how: Json
    names: tuple[NewName, ...] = ()

    @property
    def newest(self) -> Table:
        """The shard under its newest name."""
        name = next((known.name for known in reversed(self.names) if known.name is not None), self.table.name)
        return replace(self.table, name=name)

    @property
    def made_at(self) -> float | None:
        """The time of the DDL by the source's clock, in seconds since 1970; None: unknown."""
        session: list[list[Any]] = self.how.get("session", [])
        return next((float(value) for name, value in session if name == "timestamp"), None)

    def rows_until(self, until: Location, shard: TableName) -> list[HeldRows]:
        """Return the held-back rows of the shard after this DDL, up to the next DDL or to `until`.

        `shard`: the name by which the shard is identified.
        """
        held, table, after = list[HeldRows](), self.table, self.end
        for name in (*self.names, NewName(until, until, None)):
            if after.sort_key < name.at.sort_key:
                held.append(HeldRows(table, after, name.at, self.needs, shard))
            if name.name is None:
                break
            table, after = replace(table, name=name.name), name.end
        return held


@dataclass(frozen=True)
class Member:
    """A shard whose rows are held back. `base`: its definition for the rows that are already applied."""

    table: TableName
    base: StoredTable
    items: tuple[ShardDdl, ...]

    @property
    def is_dropped(self) -> bool:
        """Return True if the source no longer has the table."""
        return bool(self.items and self.items[-1].names) and self.items[-1].names[-1].name is None


@dataclass(frozen=True)
class HeldRows:
    """Held rows of one shard that can be applied: of transactions whose ends are after `after` and up to `until`.
    `table`: the shard's definition for them, under its name in the log there. `needs`: see `ShardDdl`. `shard`: the
    name that identifies the shard."""

    table: StoredTable
    after: Location
    until: Location
    needs: Location
    shard: TableName


@dataclass(frozen=True)
class Resync:
    """All held-back rows that can be applied because one DDL was resolved.

    `plan`: the fingerprint of the plan by which they are being written; "" if nothing is written yet. `since`: the time
    of the DDL, see `Group.since`."""

    pieces: tuple[HeldRows, ...]
    plan: str = ""
    since: float | None = None

    @property
    def lo(self) -> Location:
        return min((piece.after for piece in self.pieces), key=lambda place: place.sort_key)

    def stops(self, *further: Location) -> list[Location]:
        """Return the locations at which rows of a shard begin or end, in order, without the first of them.

        Between two of these locations each shard has one definition, or is not read: rows before its own DDL have
        another definition. `further`: additional locations, ignored outside of the range.
        """
        places = {place.sort_key: place for piece in self.pieces for place in (piece.after, piece.until)}
        first, last = min(places), max(places)
        places |= {place.sort_key: place for place in further if first < place.sort_key < last}
        return [places[key] for key in sorted(places)[1:]]

    def before(self, stop: Location) -> list[HeldRows]:
        """Return the held rows between the previous stop and this one."""
        return [piece for piece in self.pieces if piece.after.sort_key < stop.sort_key <= piece.until.sort_key]


@dataclass(frozen=True)
class Group:
    """The group of one merged table in one source.

    `resolved`: the number of DDL statements of the merged table that this source has completed. `members`: the shards
    that are held or in re-sync; all others are ready. `resync`: rows that have to be applied before any other rows of
    these shards; None: there are none.
    """

    target: TableName
    resolved: int = 0
    members: tuple[Member, ...] = ()
    resync: Resync | None = None

    def member(self, table: TableName) -> Member | None:
        return next((member for member in self.members if member.table == table), None)

    def longest(self) -> Member | None:
        """Return the shard that has executed the most DDL."""
        return max(self.members, key=lambda member: len(member.items), default=None)

    @property
    def needs(self) -> Location | None:
        """The location from which the log is needed for held-back rows; None if no rows are held back."""
        places = [member.items[0].needs for member in self.members if member.items]
        places += [piece.needs for piece in self.resync.pieces] if self.resync is not None else []
        return min(places, key=lambda place: place.sort_key, default=None)

    @property
    def since(self) -> float | None:
        """The time of the oldest DDL after which rows are held back, in seconds since 1970; None: unknown."""
        times = [member.items[0].made_at for member in self.members if member.items]
        times += [self.resync.since] if self.resync is not None else []
        return min((time for time in times if time is not None), default=None)


def after_ddl(group: Group, source: str, table: TableName, base: Table, item: ShardDdl) -> Group:
    """Return the group after a shard has executed a DDL. `base`: the shard's definition before it.

    Raises ShardDdlOutOfSequence.
    """
    mine = group.member(table) or Member(table, base, ())
    turn, longest = len(mine.items), group.longest()
    if longest is not None and turn < len(longest.items) and longest.items[turn].ddls != item.ddls:
        others = longest.items[turn].ddls
        raise ShardDdlOutOfSequence(source, str(table), item.ddls, str(longest.table), others, str(group.target))
    return _with(group, replace(mine, items=(*mine.items, item)))


def after_create(
    group: Group, table: Table, base: Table | None, at: Location, needs: Location, *, like: Collection[TableName] = ()
) -> Group | None:
    """Return the group after a new shard was created at `at`. It counts as having executed the same pending DDL as the
    shards with its definition. None: no shard has it, or shards that have executed different DDL have it.

    `base`: the definition of shards that have executed none (None: all have). `like`: the shards with a literally equal
    definition; they decide if more shards have the same rows, as after the DDL of a plain key. `needs`: see `ShardDdl`.
    """
    longest = group.longest()
    if longest is None or not longest.items:
        return group
    forms = {len(member.items): member.items[-1].table for member in group.members if member.items}
    if base is not None:
        forms[0] = base
    turns = {turn for turn, form in forms.items() if _row_format(table) == _row_format(form)}
    if len(turns) > 1:
        made_by = {name: len(one.items) if (one := group.member(name)) is not None else 0 for name in like}
        turns &= set(made_by.values())
    if not turns:
        return None
    turn = max(turns)
    if turn == 0:
        return group
    # It counts as having executed them at its creation, with no rows in between.
    items = tuple(
        replace(item, at=at, end=at, needs=needs, table=replace(item.table, name=table.name), names=())
        for item in longest.items[:turn]
    )
    newest = replace(items[-1], table=table)
    return _with(group, Member(table.name, replace(longest.base, name=table.name), (*items[:-1], newest)))


def after_rename(group: Group, table: TableName, name: TableName | None, at: Location, end: Location) -> Group:
    """Return the group after a held shard was renamed, or dropped if `name` is None."""
    members = []
    for member in group.members:
        if member.table == table:
            *others, last = member.items
            items = (*others, replace(last, names=(*last.names, NewName(at, end, name))))
            base = member.base if name is None else replace(member.base, name=name)
            member = Member(name or name_of_dropped(table, at), base, items)
        members.append(member)
    return replace(group, members=tuple(members))


def name_of_dropped(table: TableName, at: Location) -> TableName:
    """Return the name that identifies a held shard dropped at `at`, as another table may get its former name.

    >>> str(name_of_dropped(TableName("shop", "o_1"), Location("mysql-bin.000005", 916)))
    'shop.o_1 dropped at 1-000005:916'
    """
    place, name = f"{at.suffix}-{at.file.rpartition('.')[2]}:{at.position}", table.table
    if len(name) > _LONGEST_TABLE_PART:  # one statement may drop several tables whose names begin alike
        name = f"{name[: _LONGEST_TABLE_PART - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return TableName(table.schema, f"{name} dropped at {place}")


def due_item(group: Group, tables: Collection[TableName]) -> ShardDdl | None:
    """Return the current DDL if all shards have executed it; None if a shard has not, or a re-sync is pending.

    `tables`: all existing shards of the group. The item is that of the shard that executed the DDL first.
    """
    firsts = {member.table: member.items[0] for member in group.members if member.items}
    if group.resync is not None or not firsts or not firsts.keys() >= set(tables):
        return None
    return min(firsts.values(), key=lambda item: item.at.sort_key)


def missing_shards(group: Group, tables: Collection[TableName]) -> list[TableName]:
    """Return the shards that have not executed the current DDL, which at least one shard has executed."""
    executed = {member.table for member in group.members if member.items}
    return sorted(set(tables) - executed) if executed else []


def resolve(group: Group, here: Location) -> Group:
    """Return the group after the target has executed the current DDL.

    `here`: the location up to which the sync has skipped held-back rows.
    """
    pieces: list[HeldRows] = []
    members: list[Member] = []
    for member in group.members:
        if not member.items:
            members.append(member)
            continue
        item, rest = member.items[0], member.items[1:]
        until = rest[0].at if rest else here
        pieces += item.rows_until(until, member.table)
        members.append(Member(member.table, item.newest, rest))
    return replace(
        group, resolved=group.resolved + 1, members=tuple(members), resync=Resync(tuple(pieces), since=group.since)
    )


def after_resync(group: Group) -> Group:
    """Return the group after its re-sync is applied: a shard without further items is ready."""
    return replace(group, members=tuple(member for member in group.members if member.items), resync=None)


def needed_with(needed: Location, groups: Iterable[Group]) -> Location:
    """Return the location from which the log is needed, including for held-back rows."""
    places = [needed, *(place for group in groups if (place := group.needs) is not None)]
    return min(places, key=lambda place: place.sort_key)


def relevant_time_zone(before: Table, after: Table, zone: str | None) -> tuple[str, ...]:
    """Return the session's time zone as a part of a shard's DDL, if values depend on it: if the DDL adds or changes a
    column that is a TIMESTAMP before or after it. `zone` None: unknown.

    >>> from airflow_provider_dm.engine.schema.model import Column
    >>> name = TableName("shop", "orders")
    >>> after = Table(name, (Column("t", 0, "timestamp", "timestamp", True),), ())
    >>> relevant_time_zone(Table(name, (), ()), after, "+02:00")
    ("SET time_zone = '+02:00'",)
    """
    old, new = ({replace(column, position=0) for column in table.columns} for table in (before, after))
    if all(column.data_type.lower() != "timestamp" for column in old ^ new):
        return ()
    return (f"SET time_zone = '{zone}'" if zone is not None else "SET time_zone = DEFAULT",)


def keeps_keys(member: Member, columns: Collection[str]) -> bool:
    """Return True if no DDL of a shard changes the key that identifies rows, or a unique key.

    `columns`: the columns of the target's unique keys, in lower case.
    """
    return all(_keys(item.table, columns) == _keys(member.base, columns) for item in member.items)


def _keys(table: Table, more: Collection[str]) -> object:
    keys = sorted(table.unique_keys, key=lambda key: key.name)
    names = {name.lower() for key in keys for name in key.columns}.union(more)
    return (
        [(key.name, tuple(name.lower() for name in key.columns), key.prefixes, key.expression) for key in keys],
        {one.name.lower(): (value_signature(one), one.nullable) for one in table.columns if one.name.lower() in names},
    )


def _row_format(table: Table) -> tuple[object, ...]:
    """Return a table's columns in their order, with charsets, and its unique keys, without what only the catalogue
    shows."""
    columns = tuple(
        (one.name.lower(), one.column_type.lower(), one.nullable, one.charset, one.collation, one.generated)
        for one in table.columns
    )
    keys: Mapping[str, tuple[object, ...]] = {
        key.name.lower(): (tuple(name.lower() for name in key.columns), key.prefixes, key.expression)
        for key in table.unique_keys
    }
    return columns, tuple(sorted(keys.items(), key=lambda pair: pair[0]))


def _with(group: Group, member: Member) -> Group:
    exists = group.member(member.table) is not None
    members = tuple(member if one.table == member.table else one for one in group.members)
    return replace(group, members=members if exists else (*members, member))
