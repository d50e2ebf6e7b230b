"""Rounds of random histories on a merged table of two sources with two shards each, while everything is killed.

Rows move between shards and sources during a full migration and the sync behind it (`moving`), by real Spark apps and
real relays. Driver, Python workers, relays and the target die by kill -9. In the end a run that nobody disturbs catches
up, and the target equals the sources, row by row.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.config.job import JobSpec, SecretRef
from airflow_provider_dm.engine.errors import Reaction
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.reported import reported_in
from testbed import Server
from tests.chaos.moving import TABLE, Mover, Place
from tests.integration.merge.conftest import META_VARIABLE, Shops
from tests.integration.sync.app_process import AppProcess

DEEDS: Final = ("worker", "relay", "target", "driver")
"""What is killed. The relay is one of the two, by chance."""
PLACES: Final = (Place("a", "o_0"), Place("a", "o_1"), Place("b", "o_2"), Place("b", "o_3"))
ROWS: Final = 20_000
ATTEMPTS: Final = 8
"""Of one unit, as a scheduler would retry it."""
WAIT_SECONDS: Final = 180


@dataclass
class Round:
    """One task, from its beginning to the comparison."""

    shops: Shops
    chance: random.Random
    mover: Mover
    done: Counter[str] = field(default_factory=Counter)
    _runs: list[AppProcess] = field(default_factory=list)

    def play(self, while_copying: Sequence[str], while_syncing: Sequence[str]) -> None:
        """Play it. Raises AssertionError where a run ends otherwise than well by itself, or a row differs then."""
        self.mover.fill(ROWS)
        self.shops.relay()
        with self.mover.moving():
            left = self._copy(while_copying)
            self._sync([*left, *while_syncing])
        code = self._until_it_ends("incremental_sync")
        assert code == 0
        waiting = self.shops.meta_rows("dm_contested_row")
        report = self.shops.compared()
        assert report.equal, report
        assert waiting == 0, f"{waiting} rows wait"
        self.done["rows compared"] += len(self.shops.rows())
        self.done["transactions"] += self.mover.transactions

    def end(self) -> None:
        """Nothing of it is left running."""
        for run in self._runs:
            if run.alive():
                run.kill()
        for relay in self.shops.relays.values():
            if relay.alive():
                relay.kill()

    # Units

    def _copy(self, deeds: Sequence[str]) -> list[str]:
        """Return what was not done, as the copy was over before."""
        run, left = self._start("full_migration"), list(deeds)
        while left:
            if not self._wait_for(run, self._is_copying):
                break
            time.sleep(self.chance.uniform(0, 0.6))
            if not run.alive():
                break
            run = self._do(left.pop(0), run)
        assert self._until_it_ends("full_migration", run) == 0
        return left

    def _sync(self, deeds: Sequence[str]) -> None:
        """It has no end, so its driver is killed at last."""
        run = self._start("incremental_sync", until="forever")
        for deed in (*deeds, None):
            run = self._going_on(run)
            time.sleep(self.chance.uniform(0.1, 1.5))
            if deed is not None:
                run = self._do(deed, run)
        run.kill()

    def _going_on(self, run: AppProcess) -> AppProcess:
        """The run when it has applied something more, or one that was started in its place and has."""
        before = run.applied()
        while not self._wait_for(run, lambda run=run, before=before: run.applied() > before):  # type: ignore[misc]
            run, before = self._again(run), 0
        return run

    def _is_copying(self) -> bool:
        tables = self.shops.target.sql(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s AND table_name = 'dm_copy_chunk'",
            [self.shops.meta],
        )
        if not tables[0][0]:
            return False
        ((rows,),) = self.shops.target.sql(
            "SELECT COALESCE(SUM(rows_copied), 0) FROM dm_copy_chunk", database=self.shops.meta
        )
        return int(rows) > 0

    # Runs

    def _start(self, app: str, until: str = "caught-up") -> AppProcess:
        spec = self.shops.migration().spec
        changed = {
            "run_id": f"run-{len(self._runs)}",
            "app": app,
            "until": until,
            "meta_url": SecretRef(env=META_VARIABLE),
            "launcher_pid": os.getpid(),
        }
        self._runs.append(
            AppProcess(self.shops.folder, self.shops.store, JobSpec.model_validate({**dict(spec), **changed}))
        )
        self.done["runs"] += 1
        return self._runs[-1]

    def _again(self, run: AppProcess) -> AppProcess:
        """Start it anew where it has died, or ended with an error that may pass. Raises AssertionError for another."""
        code = run.ends()
        assert code < 0 or self._may_pass(run), f"exit {code}: {run.text()[-6000:]}"
        assert len(self._runs) < 4 * ATTEMPTS, run.text()[-6000:]
        return self._start(run.spec.app, run.spec.until)

    def _until_it_ends(self, app: str, run: AppProcess | None = None) -> int:
        run = run or self._start(app)
        for _ in range(ATTEMPTS):
            if run.ends(WAIT_SECONDS) == 0:
                return 0
            run = self._again(run)
        raise AssertionError(run.text()[-6000:])

    def _may_pass(self, run: AppProcess) -> bool:
        told = reported_in(run.text())
        return told is not None and told.reaction is Reaction.RETRY

    def _wait_for(self, run: AppProcess, condition: Callable[[], bool]) -> bool:
        """Tell whether it came true before the run ended."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            if not run.alive():
                return False
            assert time.monotonic() < deadline, run.text()[-6000:]
            time.sleep(0.05)
        return True

    # Deeds

    def _do(self, deed: str, run: AppProcess) -> AppProcess:
        """Gives the run that goes on."""
        self.done[f"{deed} killed in {run.spec.app}"] += 1
        match deed:
            case "worker":
                if self._wait_for(run, lambda: bool(run.workers())):
                    run.kill_a_worker()
            case "relay":
                name = self.chance.choice(list(self.shops.relays))
                self.shops.relays.pop(name).kill()
                time.sleep(self.chance.uniform(0, 1))
                self.shops.relay()
            case "target":
                self.shops.target.kill()
                time.sleep(self.chance.uniform(0, 1))
                self.shops.target.start()
            case _:
                run.kill()
                return self._start(run.spec.app, run.spec.until)
        return run


@contextmanager
def _shops(target: Server, sources: Mapping[str, Server], schema: str, folder: Path) -> Iterator[Shops]:
    url = f"sqlite:///{folder}/meta.db"
    migrate(url)
    os.environ[META_VARIABLE] = url
    with MetaStore.open(url) as store:
        shops = Shops(target, sources, schema, folder, store)
        for server in sources.values():
            server.sql("FLUSH BINARY LOGS")
            server.sql(f"CREATE DATABASE IF NOT EXISTS {schema}")
        shops.create(TABLE, *(f"{place.source}:{place.table}" for place in PLACES))
        try:
            yield shops
        finally:
            del os.environ[META_VARIABLE]


def play_round(target: Server, sources: Mapping[str, Server], *, schema: str, seed: int) -> Counter[str]:
    """One round in a schema of its own. Gives what was done. Raises AssertionError; then its folder is kept."""
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="dm-moves-"))
    deeds = list(DEEDS)
    chance.shuffle(deeds)
    half = 1 + seed % 3
    with _shops(target, sources, schema, folder) as shops:
        round_ = Round(shops, chance, Mover(sources, schema, list(PLACES), random.Random(seed)))
        try:
            round_.play(deeds[:half], deeds[half:])
        except BaseException:
            print(f"the round with seed {seed} failed; logs and relay directories are kept in {folder}", flush=True)
            raise
        finally:
            round_.end()
    shutil.rmtree(folder)
    return round_.done
