"""The runs of one task, which die in every way and are started again as a scheduler would; and the task's surroundings.

Driver, Python workers, relays and the target die by kill -9. What a round is about (`moves`, `ddl`) says when.
"""

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

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.errors import Reaction
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.engine.reported import reported_in
from testbed import Server
from tests.integration.merge.conftest import Shops
from tests.integration.sync.app_process import WORKER_SYNC, AppProcess
from tests.jobs import META_VARIABLE
from tests.metadata_db import new_meta_db
from tests.nursery import Nursery

ATTEMPTS: Final = 8
"""The attempts at one unit, as a scheduler would retry it."""
WAIT_SECONDS: Final = 400


class ShopsWhoseRelaysDie(Shops):
    """Shops with relays that are processes, and can be killed."""

    def relay_of(self, spec: RelaySpec, name: str) -> RelayProcess:
        return RelayProcess.start(spec, dict(os.environ), self.folder / f"relay-{name}.log")


@dataclass
class Runs:
    """One task, and the runs that it has had."""

    shops: Shops
    chance: random.Random
    script: Path | None = None
    """What is run in place of the task's app. None: that on Spark, a sync with all epochs on workers."""
    nursery: Nursery | None = None
    """What the script is forked from; without one it starts anew."""
    done: Counter[str] = field(default_factory=Counter)
    _runs: list[AppProcess] = field(default_factory=list)

    def close(self) -> None:
        """Nothing of it is left running."""
        for run in self._runs:
            if run.alive():
                run.kill()
        for relay in self.shops.relays.values():
            if relay.alive():
                relay.kill()

    def sync(self, faults: Sequence[str]) -> None:
        """Sync while this is done. It has no end, so its driver is killed at last."""
        run = self.start("incremental_sync", until="forever")
        for fault in (*faults, None):
            run = self.going_on(run)
            time.sleep(self.chance.uniform(0.1, 1.5))
            if fault is not None:
                run = self.do(fault, run)
        run.kill()

    def going_on(self, run: AppProcess) -> AppProcess:
        """The run when it has applied something more, or one that was started in its place and has."""
        before = run.applied()
        while not self.wait_for(run, lambda run=run, before=before: run.applied() > before):  # type: ignore[misc]
            run, before = self.again(run), 0
        return run

    def start(self, app: str, until: str = "caught-up") -> AppProcess:
        spec = self.shops.migration().spec
        changed = {"run_id": f"run-{len(self._runs)}", "app": app, "until": until, "launcher_pid": os.getpid()}
        on_spark = WORKER_SYNC if app == "incremental_sync" else None
        self._runs.append(
            AppProcess(
                self.shops.folder,
                self.shops.store,
                JobSpec.model_validate({**dict(spec), **changed}),
                self.script or on_spark,
                self.nursery if self.script else None,
            )
        )
        self.done["runs"] += 1
        return self._runs[-1]

    def again(self, run: AppProcess) -> AppProcess:
        """Start it anew where it has died, or ended with an error that may pass. Raises AssertionError for another."""
        code = run.ends()
        assert code < 0 or self._may_pass(run), f"exit {code}: {run.text()[-6000:]}"
        assert len(self._runs) < 4 * ATTEMPTS, run.text()[-6000:]
        return self.start(run.spec.app, run.spec.until)

    def until_it_ends(self, app: str, run: AppProcess | None = None) -> int:
        run = run or self.start(app)
        for _ in range(ATTEMPTS):
            if self._end_of(run) == 0:
                return 0
            run = self.again(run)
        raise AssertionError(run.text()[-6000:])

    def _end_of(self, run: AppProcess) -> int:
        """Return its exit code, however long it takes, while it applies something. Raises AssertionError."""
        while True:
            before = run.achieved()
            try:
                return run.ends(WAIT_SECONDS)
            except AssertionError:
                if run.achieved() == before:
                    raise

    def _may_pass(self, run: AppProcess) -> bool:
        error = reported_in(run.text())
        return error is not None and error.reaction is Reaction.RETRY

    def wait_for(self, run: AppProcess, condition: Callable[[], bool]) -> bool:
        """Return True if it came true before the run ended, however long that took, while it applied something."""
        deadline, before = time.monotonic() + WAIT_SECONDS, run.achieved()
        while not condition():
            if not run.alive():
                return False
            if time.monotonic() > deadline:
                now = run.achieved()
                assert now != before, run.text()[-6000:]
                deadline, before = time.monotonic() + WAIT_SECONDS, now
            time.sleep(0.05)
        return True

    # Faults

    def do(self, fault: str, run: AppProcess) -> AppProcess:
        """Gives the run that continues."""
        self.done[f"{fault} killed in {run.spec.app}"] += 1
        match fault:
            case "worker":
                if self.wait_for(run, lambda: bool(run.workers())):
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
                return self.start(run.spec.app, run.spec.until)
        return run


@contextmanager
def a_task(target: Server, sources: Mapping[str, Server], *, schema: str, seed: int) -> Iterator[Shops]:
    """Make a schema, a metadata DB and a folder for one round, which is kept where the round fails."""
    folder = Path(tempfile.mkdtemp(prefix="dm-chaos-"))
    url = new_meta_db(folder)
    os.environ[META_VARIABLE] = url
    for server in sources.values():
        server.sql("FLUSH BINARY LOGS")
        server.sql(f"CREATE DATABASE IF NOT EXISTS {schema}")
    try:
        with MetaStore.open(url) as store:
            yield ShopsWhoseRelaysDie(target, sources, schema, folder, store)
    except BaseException:
        print(f"the round with seed {seed} failed; logs and relay directories are kept in {folder}", flush=True)
        raise
    finally:
        del os.environ[META_VARIABLE]
    shutil.rmtree(folder)
