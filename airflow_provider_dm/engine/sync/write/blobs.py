"""Serialization of folded changes for the exchange: one blob from each range for each group.

A group is a sequence of neighbouring buckets. Spark exchanges one object per blob; Spark rows would cost more than the
folding.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import TypeAlias

from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.sync.plan.bucket import bucket_function, bucket_of_all
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import Change, Key
from airflow_provider_dm.engine.sync.write.compactor import FoldedChanges, compose_into

KeyedItems: TypeAlias = list[tuple[Key, Row | None, Row | None]]
CountItems: TypeAlias = list[tuple[Row, int]]


def buckets_of(group: int, groups: int, buckets: int) -> range:
    """Return the neighbouring buckets of a group.

    >>> [list(buckets_of(group, 2, 5)) for group in range(2)]
    [[0, 1], [2, 3, 4]]
    """
    return range(group * buckets // groups, (group + 1) * buckets // groups)


def pack(plan: SyncPlan, folded: FoldedChanges, groups: int) -> list[bytes]:
    """Return one blob for each group, with its share of the folded changes. Raises InvariantBroken."""
    if folded.kept:
        raise InvariantBroken("an epoch whose changes are not folded is one task", "it is divided into groups")
    group_of = [group for group in range(groups) for _ in buckets_of(group, groups, plan.buckets)]
    keyed: list[dict[int, KeyedItems]] = [{} for _ in range(groups)]
    counts: list[dict[int, CountItems]] = [{} for _ in range(groups)]
    for table, changes in folded.keyed.items():
        part = plan.part(table)
        bucket_of, shares = bucket_function(part, plan.buckets), [share.setdefault(table, []) for share in keyed]
        for key, (before, after) in changes.items():
            shares[group_of[bucket_of(part.row_of(key, before, after))]].append((key, before, after))
    for table, images in folded.counts.items():
        bucket_of = bucket_function(plan.part(table), plan.buckets)
        count_shares = [share.setdefault(table, []) for share in counts]
        for image, count in images.items():
            if count:
                count_shares[group_of[bucket_of(image)]].append((image, count))
    in_order: list[dict[int, list[Change]]] = [{} for _ in range(groups)]
    for table, changes_of in folded.in_order.items():
        in_order[group_of[bucket_of_all(plan.part(table), plan.buckets)]][table] = changes_of
    # Only the blob of the first group has the number of changes, so that the sum is right.
    return [
        pickle.dumps((0 if group else folded.changes, keyed[group], counts[group], in_order[group]), protocol=5)
        for group in range(groups)
    ]


def unpack(plan: SyncPlan, blobs: Iterable[bytes]) -> FoldedChanges:
    """Combine the blobs of one group, in the order of the log. Raises BrokenChain."""
    folded, losses = FoldedChanges(), plan.losses
    for blob in blobs:
        changes, keyed, counts, in_order = pickle.loads(blob)  # written by `pack`, in the same job
        folded.add_count(changes)
        for table, items in keyed.items():
            put = compose_into(folded.keyed.setdefault(table, {}), plan.part(table), loose=table in losses)
            for key, before, after in items:
                put(key, before, after)
        for table, items in counts.items():
            into = folded.counts.setdefault(table, {})
            for image, count in items:
                into[image] = into.get(image, 0) + count
        for table, items in in_order.items():
            folded.in_order.setdefault(table, []).extend(items)
    return folded
