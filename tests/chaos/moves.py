"""Rounds of random histories on a merged table of two sources with two shards each, while everything is killed.

Rows move between shards and sources during a full migration and the sync after it (`moving`), by real Spark apps and
real relays, which die by kill -9 (`runs`). In the end an undisturbed run catches up, and the target equals the
sources, row by row.
"""

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Final

from testbed import Server
from tests.chaos.moving import TABLE, Mover, Place
from tests.chaos.runs import Runs, a_task
from tests.integration.merge.conftest import Shops

FAULTS: Final = ("worker", "relay", "target", "driver")
"""What is killed. The relay is one of the two, by chance."""
PLACES: Final = (Place("a", "o_0"), Place("a", "o_1"), Place("b", "o_2"), Place("b", "o_3"))
ROWS: Final = 20_000


@dataclass
class Round:
    """One task, from its beginning to the comparison."""

    runs: Runs
    mover: Mover

    def play(self, while_copying: Sequence[str], while_syncing: Sequence[str]) -> None:
        """Play it. Raises AssertionError where a run ends otherwise than well by itself, or a row differs then."""
        self.mover.fill(ROWS)
        self.runs.shops.relay()
        with self.mover.moving():
            left = self._copy(while_copying)
            self.runs.sync([*left, *while_syncing])
        code = self.runs.until_it_ends("incremental_sync")
        assert code == 0
        waiting = self.runs.shops.meta_rows("dm_contested_row")
        report = self.runs.shops.compared()
        assert report.equal, report
        assert waiting == 0, f"{waiting} rows wait"
        self.runs.done["rows compared"] += len(self.runs.shops.rows())
        self.runs.done["transactions"] += self.mover.transactions

    # Units

    def _copy(self, faults: Sequence[str]) -> list[str]:
        """Return what was not done, as the copy was over before."""
        run, left = self.runs.start("full_migration"), list(faults)
        while left:
            if not self.runs.wait_for(run, partial(is_copying, self.runs.shops)):
                break
            time.sleep(self.runs.chance.uniform(0, 0.6))
            if not run.alive():
                break
            run = self.runs.do(left.pop(0), run)
        assert self.runs.until_it_ends("full_migration", run) == 0
        return left


def is_copying(shops: Shops) -> bool:
    """Return True if a row was copied."""
    tables = shops.target.sql(
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s AND table_name = 'dm_copy_chunk'",
        [shops.meta],
    )
    if not tables[0][0]:
        return False
    ((rows,),) = shops.target.sql("SELECT COALESCE(SUM(rows_copied), 0) FROM dm_copy_chunk", database=shops.meta)
    return int(rows) > 0


def play_round(target: Server, sources: Mapping[str, Server], *, schema: str, seed: int) -> Counter[str]:
    """One round in a schema of its own. Gives what was done. Raises AssertionError; then its folder is kept."""
    chance = random.Random(seed)
    faults = list(FAULTS)
    chance.shuffle(faults)
    half = 1 + seed % 3
    with a_task(target, sources, schema=schema, seed=seed) as shops:
        shops.create(TABLE, *(f"{place.source}:{place.table}" for place in PLACES))
        with closing(Runs(shops, chance)) as runs:
            Round(runs, Mover(sources, schema, list(PLACES), random.Random(seed))).play(faults[:half], faults[half:])
    return runs.done
