"""The sharding groups of one source, as the target keeps them (target/shard_groups.py), and the log that they need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.shard.group import Group, Item, Member, Resync
from airflow_provider_dm.engine.target.identity import SubtaskRef
from airflow_provider_dm.engine.target.shard_groups import StoredGroup, StoredMember, load_groups, load_members


def read_groups(connection: Connection, ref: SubtaskRef) -> list[Group]:
    """Return the groups of a subtask. Raises AnswerCut."""
    members = load_members(connection, ref)
    return [
        _loaded(one, [member for member in members if member.target == one.target])
        for one in load_groups(connection, ref)
    ]


def needed_with(needed: Location, groups: Iterable[Group]) -> Location:
    """Return from where on the log is needed, for rows that are held back as well."""
    places = [needed, *(place for group in groups if (place := group.needs) is not None)]
    return min(places, key=lambda place: place.sort_key)


def _loaded(stored: StoredGroup, members: Sequence[StoredMember]) -> Group:
    held = (Member(one.table, one.base, tuple(map(Item.from_json, one.items))) for one in members)
    resync = None if stored.resync is None else Resync.from_json(stored.resync)
    return Group(stored.target, stored.resolved, tuple(held), resync)
