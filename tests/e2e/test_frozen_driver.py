"""A driver that was frozen before its first claim, while another run did its work: thawed, it ends and writes nothing.

Whole runs, with spark-submit and JVM. The target's general log shows the frozen driver's statements: it logs in
as a user of its own, and the general log has every statement of that user.
"""

import os
import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.errors import Reaction
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.launch.errors import SparkAppFailed
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.job import AppName, Upstream, source_spec
from airflow_provider_dm.launch.processes import python_drivers, session_members
from airflow_provider_dm.launch.secrets import PassedSecrets
from airflow_provider_dm.launch.spark_command import SparkSettings, app_script
from airflow_provider_dm.launch.submit import SparkApp
from airflow_provider_dm.launch.supervisor import Supervisor
from testbed import Server
from tests.chaos.proxy import Proxy
from tests.conftest import FreshSchema
from tests.integration.sync.conftest import rows_of
from tests.jobs import META_VARIABLE, endpoint, relay_spec
from tests.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1200)]

SOURCE, TASK = "one", "frozen"
SECONDS = 300
SLOW_SECONDS = 1.5
"""An answer takes so long to the run that will be frozen: it cannot have claimed anything when it is."""
WRITES = r"^[[:space:]]*(INSERT|REPLACE|UPDATE|DELETE|CREATE|ALTER|DROP|TRUNCATE|LOAD|RENAME)"


@dataclass
class World:
    """One task on two servers, and the runs of it."""

    source: Server
    target: Server
    schema: str
    folder: Path
    store: MetaStore
    url: str
    meta: dict[str, object] | None = None
    apps: list[SparkApp] = field(default_factory=list)

    @property
    def task(self) -> TaskConfig:
        instance = {"source-id": SOURCE, "block-allow-list": "ours", **({"meta": self.meta} if self.meta else {})}
        return TaskConfig.model_validate(
            {
                "name": TASK,
                "task-mode": "incremental" if self.meta else "full",
                "meta-schema": f"{self.schema}_meta",
                "block-allow-list": {"ours": {"do-dbs": [self.schema]}},
                "mysql-instances": [instance],
            }
        )

    @property
    def upstream(self) -> Upstream:
        config = SourceConfig.model_validate({"source-id": SOURCE})
        return Upstream(config, endpoint(SOURCE, self.source), self.folder / "relay")

    def start(
        self, app: AppName, user: str, attempt: int, *, identity: str = "dag/run/task", port: int = 0
    ) -> SparkApp:
        """A run, launched now. `user` is who it is for the target."""
        one, login = (
            self.upstream,
            Endpoint("target", self.target.host, port or self.target.port, user, Secret("secret")),
        )
        inputs = Inputs(self.task, (one.config,), (one.endpoint,), login)
        holder = Holder(identity=identity, attempt=str(attempt), host="here")
        supervisor = Supervisor(inputs, (one,), self.store, Secret(self.url), holder, SparkSettings())
        job = supervisor.job(app, "forever" if app == "incremental_sync" else "caught-up")
        run_dir = self.folder / user
        run_dir.mkdir()
        self.apps.append(SparkApp.start(job, run_dir=run_dir))
        return self.apps[-1]

    def has_begun(self, app: SparkApp) -> bool:
        assert app.poll() is None, app.log_path.read_text()[-4000:]
        return self.store.get_run(app.job.spec.run_id) is not None

    def written_by(self, user: str) -> Sequence[object]:
        """Every statement of this user that writes, as the target has logged it."""
        query = "SELECT argument FROM mysql.general_log WHERE user_host LIKE %s"
        return self.target.sql(f"{query} AND CONVERT(argument USING utf8mb4) REGEXP %s", [f"{user}[%", WRITES])

    def rows(self) -> list[tuple[object, ...]]:
        return rows_of(self.target, self.schema, "t")


@pytest.fixture
def world(
    mariadb_source: Server,
    mysql_target: Server,
    fresh_schema: FreshSchema,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    schema, url = fresh_schema(mariadb_source), f"sqlite:///{tmp_path}/meta.db"
    mariadb_source.sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)", database=schema)
    migrate(url)
    monkeypatch.setenv(META_VARIABLE, url)
    with ExitStack() as stack:
        stack.enter_context(logged(mysql_target))
        for user in ("first", "second", "other"):
            mysql_target.create_user(user, "secret", privileges="ALL PRIVILEGES")
            stack.callback(mysql_target.sql, f"DROP USER '{user}'@'%'")
        made = World(mariadb_source, mysql_target, schema, tmp_path, stack.enter_context(MetaStore.open(url)), url)
        yield made
        for app in made.apps:
            resume(session_members(app.pid))
            app.stop(0)


@contextmanager
def logged(server: Server) -> Iterator[None]:
    """The general log, as a table."""
    ((output, enabled),) = server.sql("SELECT @@GLOBAL.log_output, @@GLOBAL.general_log")
    server.sql("TRUNCATE TABLE mysql.general_log; SET GLOBAL log_output = 'TABLE'; SET GLOBAL general_log = ON")
    try:
        yield
    finally:
        server.sql(f"SET GLOBAL general_log = {int(enabled)}; SET GLOBAL log_output = '{output}'")


@pytest.fixture
def slow(world: World) -> Iterator[int]:
    """The port of a slow way to the target."""
    with Proxy(world.target.host, world.target.port, random.Random(0), delay_seconds=SLOW_SECONDS) as proxy:
        yield proxy.port


@pytest.fixture
def relay(world: World) -> Iterator[None]:
    """The log that an incremental task reads; it begins now."""
    world.target.sql(f"CREATE DATABASE `{world.schema}`; CREATE TABLE `{world.schema}`.t (id INT PRIMARY KEY)")
    file, position = world.source.log_end()
    world.meta = {"binlog-name": file, "binlog-pos": position}
    spec = relay_spec(source_spec(world.upstream, PassedSecrets()))
    process = RelayProcess.start(spec, os.environ, world.folder / "relay.log")
    yield
    process.kill()


def freeze(world: World, app: SparkApp, *, whole: bool) -> list[int]:
    """SIGSTOP, as soon as the run exists and before it has claimed anything: to the driver, or to its JVM as well."""
    wait_for(lambda: world.has_begun(app), every=0.01)
    script = app_script(app.job.spec.app)
    pids = session_members(app.pid) if whole else python_drivers(app.pid, script)
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    assert world.store.last_generation(TASK, SOURCE) == 0
    assert not world.written_by("first")
    return pids


def resume(pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


CONNECTION_LOST = "DM-6001"
"""The target has given a connection up that was frozen while it was made."""


def ends_by_itself(world: World, app: SparkApp, user: str, code: str) -> None:
    """Check that its error asks for a retry: it is unknown which of the two runs is the newer one."""
    assert app.wait(SECONDS) == 2, "it does not end by itself"
    with pytest.raises(SparkAppFailed) as failed:
        app.outcome(world.store.get_run)
    reported = failed.value.reported
    run = world.store.get_run(app.job.spec.run_id)
    assert run is not None
    assert run.stage is Stage.PAUSED
    assert reported.code in (code, CONNECTION_LOST)
    assert reported.reaction is Reaction.RETRY
    assert not world.written_by(user)


def test_a_frozen_copy_writes_nothing_after_another_attempt_has_finished_it(world: World, slow: int) -> None:
    first = world.start("full_migration", "first", 1, port=slow)
    frozen = freeze(world, first, whole=True)
    second = world.start("full_migration", "second", 2)
    assert second.outcome(world.store.get_run).finished
    assert world.rows() == [(1,), (2,)]
    assert world.written_by("second")
    world.target.sql(f"DELETE FROM `{world.schema}`.t WHERE id = 2")  # cut over: the target is the truth now
    resume(frozen)
    ends_by_itself(world, first, "first", "DM-8013")
    assert world.rows() == [(1,)]


@pytest.mark.usefixtures("relay")
def test_syncs_that_another_attempt_of_one_of_them_has_begun(world: World, slow: int) -> None:
    """An earlier attempt is fenced; another process waits for the lease of a holder that may have died, which the
    second renews."""
    first = world.start("incremental_sync", "first", 1, port=slow)
    frozen = freeze(world, first, whole=False)
    other = world.start("incremental_sync", "other", 1, identity="dag/another run/task", port=slow)
    frozen += freeze(world, other, whole=True)
    second = world.start("incremental_sync", "second", 2)
    world.source.sql("INSERT INTO t VALUES (3)", database=world.schema)
    wait_for(lambda: world.rows() == [(3,)])
    resume(frozen)
    ends_by_itself(world, first, "first", "DM-8013")
    ends_by_itself(world, other, "other", "DM-8005")
    world.source.sql("INSERT INTO t VALUES (4)", database=world.schema)
    wait_for(lambda: world.rows() == [(3,), (4,)])
    assert second.poll() is None
