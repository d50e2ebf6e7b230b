"""`safe-mode: true` where shards make DDL together: a row that collides for good takes its place, counted and named.

With `shard-mode: pessimistic` merged tables keep to the law of owners (merge/) in safe mode, too: rows that shards hold
back are applied later than the log has them, and a DELETE among them must not meet the row that has come to its place
since. So a row that finds its place taken waits, and rows that only move find theirs. What would stop the task, two
rows that are both at their sources and cannot both be in the target (DM-6027), is settled here: the one that waits
wins, in the order in which rows came to wait, and the other one is *lost* (target/contested_row.py).

    t1   INSERT k                                       UPDATE k: it waits, and takes over again
    t2               INSERT k: it waits, and takes over
         t1 has k    t2 has k; what t1 has is lost      t1 has k; what t2 has is lost

Whose the row was that held the place is not known here: what the sources say now is not what is applied. So nobody is
asked. In one transaction the holder goes, the other one comes, and *every* shard has lost what it had at the holder's
key: one had a row there, of the others it is as true. From then on the log of a shard finds there neither its row nor
another's. The next change of the row brings it back, an INSERT or an UPDATE as one that comes anew, a DELETE ends the
note. A row that has lost is not in the target until then, also when the other one is gone: that is what was counted.

Only rows that collide go. Where another one holds a place as well, of which either gives it up, there are two cases. It
is the holder: its log takes it away, or it is set aside. It is the row that waits, whose source has it otherwise by
now, while its log is held back: then that row itself is lost, until its log comes to it. It was nowhere but here.

The shards' own transactions first read which of their rows wait, and then write. So while a place is taken over none of
them is under way (target/standstill.py), and nobody may load or catch up, who would go by records. As all wait
meanwhile, that is tried for a moment only, and not again soon where it was in vain: the row waits on until then.

`tests/unit/shard/test_moves_model.py` is the model.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.merge.collision import Collides, Holder, find_holders, shown_values
from airflow_provider_dm.engine.merge.contests import Surroundings
from airflow_provider_dm.engine.merge.overwritable import can_be_written_over
from airflow_provider_dm.engine.merge.settling import known_literals
from airflow_provider_dm.engine.merge.writer import OwnerWriter, identity_reader
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping, TargetTableMismatch
from airflow_provider_dm.engine.schema.catalogue import TableNotFound
from airflow_provider_dm.engine.schema.codec import codec_for
from airflow_provider_dm.engine.shard.giving_way import keys_stay
from airflow_provider_dm.engine.sync.safe_mode.named_collisions import NamedCollision
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision
from airflow_provider_dm.engine.target.contested_row import (
    ContestedRow,
    lock_rows,
    lose,
    lose_image,
    lost_rows,
    remove_rows,
)
from airflow_provider_dm.engine.target.errors import TargetBusy
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.target.row_key import row_key
from airflow_provider_dm.engine.target.row_owner import RowOwner
from airflow_provider_dm.engine.target.shard_groups import HeldShard, held_shards
from airflow_provider_dm.engine.target.standstill import NoStandstill, Patience, standstill
from airflow_provider_dm.engine.target.statements import delete_rows
from airflow_provider_dm.engine.target.subtask import read_subtask
from airflow_provider_dm.engine.target.table_schema import Feeder, load_feeders

log = logging.getLogger(__name__)


class PlaceNotTaken(DmError):
    """A place could not be taken over. Rolls the transaction back. `later`: it may be, when others are further on."""

    later: bool

    code = "DM-6062"
    what = "a row that collides could not take its place."
    hint = "Nothing was written; it waits, or stops the task by an error of its own."


class LostByOldKey(DmError):
    """Rows are known to be lost by a key that a DDL is about to change."""

    target: str
    rows: int

    code = "DM-6063"
    scope = Scope.UPSTREAM
    what = (
        "all shards of {target} have made a DDL about its key, and {rows} places in it, which rows of other tables "
        "have taken in safe mode, are known by the key as it is."
    )
    hint = (
        "Nothing was run. They are the rows of dm_contested_row with '-' for an image, one for each shard: where the "
        "source has such a row, renumber or delete it, and run the task again until it is gone there; remove the "
        "others then."
    )


@dataclass
class TakingOver:
    """The places that one source takes over; for the thread of its sync."""

    fence: Fence
    around: Surroundings
    _taken: list[Collision] = field(default_factory=list)
    _patience: Patience = field(default_factory=Patience)

    def take(self, found: Collides) -> bool:
        """Put a row that collides into its place. Tell whether it is there, or will be tried again later.

        Raises Fenced, TargetWentBack, and what statements raise.
        """
        gone: list[Holder] = []
        settle = partial(self._take, known=found.holders, gone=gone) if found.beside is None else self._give_up
        if self._patience.is_resting(self.around.now()):
            return True
        try:
            self.around.transactions(partial(settle, waits=found.row))
        except (TargetBusy, NoStandstill) as busy:
            log.info("%s: a place is not taken over yet: %s", self.fence.ref.source, busy)
            self._patience.was_in_vain(self.around.now())
            return True
        except PlaceNotTaken as refused:
            return refused.later
        if gone:
            self._note(found, gone)
        return True

    def taken(self) -> list[Collision]:
        """Return what was written over since the last call."""
        found, self._taken = self._taken, []
        return found

    def _note(self, found: Collides, holders: Sequence[Holder]) -> None:
        row, other = found.row, f"{found.other.source}:{found.other.table}"
        named = tuple(
            NamedCollision(one.key.name, one.key.columns, shown_values(one.values.values()), other=other)
            for one in holders
        )
        self._taken.append(Collision(str(row.target), 0, len(holders), str(row.table), named))

    def _give_up(self, connection: Connection, waits: ContestedRow) -> None:
        """Forget an image that is not what the source has now, if the log has not come to it yet. Nobody has to go."""
        ref = self.fence.ref
        self.fence.check(connection)
        if not self._keys_stay(connection, self.around.mapped(waits.source, waits.table, waits.target)):
            raise PlaceNotTaken(later=False)
        if lock_rows(connection, ref, [waits.id]) == [waits]:
            lose_image(connection, ref, waits.id)

    def _take(self, connection: Connection, waits: ContestedRow, known: Collection[Holder], gone: list[Holder]) -> None:
        with standstill(connection, self.fence.ref, self._patience.seconds):
            self._take_in(connection, waits, known, gone)
        self._patience.has_paid()

    def _take_in(
        self, connection: Connection, waits: ContestedRow, known: Collection[Holder], gone: list[Holder]
    ) -> None:
        """Put it there, where only rows of `known` are in the way.

        Note in `gone` the rows that had to go, as they are where the transaction is tried again whose answer was lost:
        nobody else settles rows of this source, so one that waits no more has found its place before.
        """
        ref = self.fence.ref
        self.fence.check(connection)
        rows = lock_rows(connection, ref, [waits.id])
        if not rows:
            return
        (row,) = rows
        mapping, access = self.around.mapped(row.source, row.table, row.target), self.around.access()
        feeders = [one for one in load_feeders(connection, ref, also_away=True) if one.target == row.target]
        self._check_all_exact(connection, feeders)
        if not (can_be_written_over(mapping) and self._keys_stay(connection, mapping)):
            raise PlaceNotTaken(later=False)
        standing = find_holders(row, mapping, connection, access.select)
        collide = [one.identity for one in known]
        if any(one.identity not in collide for one in standing):  # it has come since
            raise PlaceNotTaken(later=True)
        holders = _by_identity(standing)
        for holder in holders:
            key = row_key([value or b"" for value in holder.identity.values()])
            owners = [one for one in feeders if (one.source, one.table, key) != (row.source, row.table, row.key)]
            lose(connection, self._that_may_have(holder, owners), row.target, key)
        self._delete(connection, mapping, holders)
        remove_rows(connection, ref, [row.id])
        self._place(connection, mapping, row)
        gone[:] = holders

    def _check_all_exact(self, connection: Connection, feeders: Iterable[Feeder]) -> None:
        """Check that what each shard has in the target is told by its log alone. Raises PlaceNotTaken."""
        sources = {one.source: one.owner > 0 for one in sorted(feeders, key=lambda one: one.owner)}
        for source, recorded in sources.items():
            subtask = read_subtask(connection, self.fence.ref.of_source(source))
            if recorded or subtask is None or not subtask.exact:
                raise PlaceNotTaken(later=True)

    def _keys_stay(self, connection: Connection, mapping: TableMapping) -> bool:
        """Tell whether no DDL that a shard has made changes what names its rows: what is lost is known by that."""
        columns = {name.lower() for key in mapping.target.unique_keys for name in key.columns}
        held = held_shards(connection, self.fence.ref, mapping.target.name)
        return all(keys_stay(one.member, columns) for one in held)

    def _that_may_have(self, holder: Holder, feeders: Iterable[Feeder]) -> list[RowOwner]:
        """Return the shards that may have put such a row there: not those of which routing fills other values in.

        Raises PlaceNotTaken where a shard would name the row otherwise than the target shows it.
        """
        found = []
        for one in feeders:
            try:
                mapping = self.around.mapped(one.source, one.table, one.target)
            except (TargetTableMismatch, TableNotFound, KeyError) as error:  # it is in the middle of a DDL
                raise PlaceNotTaken(later=True) from error
            if identity_reader(mapping, self.around.access().dialect.server.flavour) is None:
                raise PlaceNotTaken(later=False)
            filled = {name: mapping.source.column(name).constant for name in holder.identity}
            if all(value in (None, holder.identity[name]) for name, value in filled.items()):
                found.append(RowOwner(self.fence.ref.of_source(one.source), one.table))
        return found

    def _delete(self, connection: Connection, mapping: TableMapping, holders: Sequence[Holder]) -> None:
        access, target = self.around.access(), mapping.target
        flavour = access.dialect.server.flavour
        keys = [
            tuple(
                [codec_for(target.name, target.column(n)).literal(flavour)(v or b"") for n, v in one.identity.items()]
            )
            for one in holders
        ]
        for statement in delete_rows(mapping, keys, dialect=access.dialect):
            if access.execute(connection, statement) != statement.rows:  # somebody else writes to the target
                raise PlaceNotTaken(later=True)

    def _place(self, connection: Connection, mapping: TableMapping, row: ContestedRow) -> None:
        access, owner = self.around.access(), RowOwner(self.fence.ref, row.table)
        writer = OwnerWriter(owner, mapping, access, most=0)
        literals = known_literals(mapping.source, access.dialect.server.flavour)
        if writer.place(connection, writer.rows([row.row], [literals(row.row)]), evict=False):
            raise PlaceNotTaken(later=False)  # it is held by a key that nobody can look up


def check_none_lost(connection: Connection, ref: SubtaskRef, target: TableName, held: Iterable[HeldShard]) -> None:
    """Check, in front of the next DDL that all shards have made, that it does not rename what is lost.

    Raises LostByOldKey.
    """
    if not all(keys_stay(replace(one.member, items=one.member.items[:1]), ()) for one in held):
        lost = lost_rows(connection, ref, target)
        if lost:
            raise LostByOldKey(str(target), lost)


def _by_identity(holders: Iterable[Holder]) -> list[Holder]:
    """Return each row once, that may hold several places: by the first of the keys."""
    found: dict[tuple[object, ...], Holder] = {}
    for one in holders:
        found.setdefault(tuple(one.identity.values()), one)
    return list(found.values())
