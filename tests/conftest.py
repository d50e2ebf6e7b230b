"""The servers that tests run against, and what happens where one is not available.

Four servers at most, a source and a target of each flavour, are started the first time any of them is asked for: all
that the collected tests need, at once, and hostile ones likewise. A run of unit tests alone starts none.

    def test_a_row_arrives(source: Server, target: Server, fresh_schema: FreshSchema) -> None: ...

runs for all four pairs; with `source` or `target` alone, for both flavours; `mysql_source` and the like name one.
`mariadb11_source` is a newer MariaDB, for what only that has. In the folders of `TAKE_TIDB` TiDB is a third target, if
the machine has a `tidb-server` (on PATH, or named by `DM_TIDB_SERVER`); elsewhere those cases are skipped.
A test marked `hostile` gets servers with unusual global settings (`testbed.hostile`); with
`DM_HOSTILE_SERVERS=1` every test does.
In these folders a case runs for one of the four pairs, which its name decides (`takes_turn`), in other folders for two
that share no flavour in a role. With `DM_ALL_PAIRS=1`, or the mark `every_pair`, it runs for all four.
`pytest -n 3` (pytest-xdist) runs three sessions side by side, each with servers of its own; a module's tests stay
together, so do those of the modules that share an Airflow or hostile servers, and all come in an order that mixes what
computes with what waits (`mixed`).
With `DM_REQUIRE_SERVERS=1` (as `.ci/run` sets it) a missing server fails the run, unless it is TiDB.
Without, its tests are left out, and the last line of the summary has their number and the reason."""

import gc
import logging
import os
import re
import shutil
import sys
import tempfile
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pymysql
import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from testbed import (
    Flavour,
    Series,
    Server,
    ServerSpec,
    ServerStartFailed,
    ServerUnavailable,
    available,
    start_servers,
    stop_servers,
)
from tests import far_away as far_away_module
from tests import short_jvms
from tests.forked import driver_nursery, forked_relays, relay_nursery  # noqa: F401 (fixtures)
from tests.metadata_db import meta_url, store  # noqa: F401 (fixtures)

pytest.register_assert_rewrite("tests.meta_contract")  # its asserts are a test's too: they say what they saw
# How long an example takes on a loaded machine says nothing. The same examples in each run: a failure is of the change.
settings.register_profile("patient", deadline=None, derandomize=True)
settings.load_profile("patient")

FLAVOURS: Final[tuple[Flavour, ...]] = ("mariadb", "mysql")
ROLES: Final = ("source", "target")
KINDS: Final[dict[str, tuple[Flavour, Series]]] = {
    "mariadb": ("mariadb", ""),
    "mysql": ("mysql", ""),
    "mariadb11": ("mariadb", "11"),
    "tidb": ("tidb", ""),
    "hostile_mariadb": ("mariadb", ""),
    "hostile_mysql": ("mysql", ""),
}
"""The meaning of the first part of a server's name."""
HOSTILE: Final = "hostile"
TIDB: Final = "tidb"
TAKE_TIDB: Final = frozenset(
    Path(__file__).parent / "integration" / room for room in ("binlog", "copy", "merge", "sync")
)
"""Where TiDB is a target, too: what writes rows and tables."""
ALL_PAIRS: Final = os.environ.get("DM_ALL_PAIRS") == "1"
REQUIRED: Final = os.environ.get("DM_REQUIRE_SERVERS") == "1"

FreshSchema = Callable[..., str]
StartServers = Callable[..., list[Server]]


class ServerPool:
    """The servers of this session, by fixture name (`mysql_source`). One that could not start is remembered."""

    def __init__(self) -> None:
        self.wanted: set[str] = set()
        self.left_out: Counter[str] = Counter()
        self._root: Path | None = None
        self._servers: dict[str, Server | ServerUnavailable | ServerStartFailed] = {}

    @property
    def root(self) -> Path:
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="dm-tests-"))
        return self._root

    @property
    def running(self) -> list[Server]:
        return [server for server in self._servers.values() if isinstance(server, Server)]

    def get(self, name: str) -> Server:
        """The server, started with all of its temper that this session wants. Fails or skips the test where there is
        none.

        Few tests want hostile servers, and a MySQL that has nothing to do still wakes a hundred times a second.
        """
        alike = {one for one in self.wanted if _is_hostile(one) == _is_hostile(name)}
        missing = sorted(({name} | alike) - self._servers.keys())
        if name in missing:
            root = self.root
            with ThreadPoolExecutor(len(missing)) as pool:
                outcomes = pool.map(lambda one: _start(one, root), missing)
                self._servers.update(zip(missing, outcomes, strict=True))
        server = self._servers[name]
        if isinstance(server, Server):
            return server
        if REQUIRED or isinstance(server, ServerStartFailed):
            raise server
        self.left_out[first_line(server)] += 1
        pytest.skip(first_line(server))

    def revive(self) -> None:
        """A test may kill or stop a server; the next one finds it running."""
        for server in self.running:
            server.start()

    def close(self, *, keep_logs: bool) -> None:
        stop_servers(self.running, keep_logs=keep_logs)
        if self._root is not None and not keep_logs:
            shutil.rmtree(self._root, ignore_errors=True)


def _start(name: str, root: Path) -> Server | ServerUnavailable | ServerStartFailed:
    try:
        flavour, series = KINDS[_kind_of(name)]
        spec = ServerSpec(name, flavour, series=series)
        return start_servers([replace(spec, hostile=True) if _is_hostile(name) else spec], root)[0]
    except (ServerUnavailable, ServerStartFailed) as error:
        return error


def _is_hostile(name: str) -> bool:
    return name.startswith(HOSTILE)


def _kind_of(name: str) -> str:
    return name.rpartition("_")[0]


def first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


POOL = pytest.StashKey[ServerPool]()
LEFT_OUT: Final = "left_out"


def pytest_configure(config: pytest.Config) -> None:
    short_jvms.use()
    config.stash[POOL] = ServerPool()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`source` and `target` are parametrized by flavour; both in one test, by pair."""
    roles = [role for role in ROLES if role in metafunc.fixturenames]
    hostile = metafunc.definition.get_closest_marker(HOSTILE) is not None
    kinds = [f"{HOSTILE}_{flavour}" if hostile else flavour for flavour in FLAVOURS]
    may_take_tidb = "target" in roles and not hostile and metafunc.definition.get_closest_marker("without_tidb") is None
    takes_tidb = may_take_tidb and any(folder in metafunc.definition.path.parents for folder in TAKE_TIDB)
    targets = [*kinds, TIDB] if takes_tidb else kinds
    if roles == ["source", "target"]:
        pairs = [pytest.param(source, target, id=f"{source}->{target}") for source in kinds for target in targets]
        metafunc.parametrize(roles, pairs, indirect=True, scope="session")
    elif roles:
        metafunc.parametrize(roles[0], kinds if roles == ["source"] else targets, indirect=True, scope="session")


def servers_of(item: pytest.Item) -> set[str]:
    """The names of the servers that a test asks for, known without running it."""
    names = {f"{kind}_{role}" for kind in KINDS for role in ROLES} & set(getattr(item, "fixturenames", ()))
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return names | {f"{parameters[role]}_{role}" for role in ROLES if role in parameters}


def takes_turn(item: pytest.Item) -> bool:
    """Return True if a case of a test runs for its pair of flavours.

    The name of a case decides, so it has the same pairs in each run.
    """
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    source, target = parameters.get("source"), parameters.get("target")
    if item.get_closest_marker("one_family") and target not in (source, TIDB):
        return False
    if ALL_PAIRS or target == TIDB or source is None or target is None or item.get_closest_marker("every_pair"):
        return True
    name = item.name.replace(f"{source}->{target}", "")
    turn = zlib.crc32(name.encode()) >> 1  # any two bits would do
    first, second = FLAVOURS[turn & 1], FLAVOURS[turn >> 1 & 1]
    pair = (first, first if item.get_closest_marker("one_family") else second)
    found = (_flavour_of(str(source)), _flavour_of(str(target)))
    if TAKE_TIDB.isdisjoint(item.path.parents):
        return (found[0] == pair[0]) is (found[1] == pair[1])
    return pair == found


def _flavour_of(kind: str) -> str:
    return kind.removeprefix(f"{HOSTILE}_")


COMPUTING: Final = ("computes", "spark", "airflow", "e2e")
SHARE_AN_AIRFLOW: Final = re.compile(r"tests/airflow/test_(dm_page|scheduler\w*|ui)\.py$")
RUN_DAGS_THEMSELVES: Final = re.compile(
    r"tests/airflow/test_(migration_dag|operate_source|relay_dag|relay_failover|shard_ddl|sync_sensors)\.py$"
)
"""The first `dag.test()` of a process builds Airflow's API in it, for eight seconds of a processor."""
SHARE_HOSTILE_SERVERS: Final = re.compile(r"tests/integration/(\w+/test_hostile|mysql/test_session)\.py$")


def kept_together(module: str) -> str:
    """Return what the tests of a module share: all of one name run one after another, in one session."""
    if SHARE_AN_AIRFLOW.search(module):
        return "tests/airflow"
    if RUN_DAGS_THEMSELVES.search(module):
        return "dag.test()"
    return HOSTILE if SHARE_HOSTILE_SERVERS.search(module) else module


class Sessions(LoadFileScheduling):
    """The sessions side by side: each takes what is kept together as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        return kept_together(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sessions:
    return Sessions(config, log)


def mixed(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with modules that compute spread evenly among those that wait for servers; small ones come last.

    Sessions side by side take the modules in this order: while one waits, another computes, and they end together.
    """
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(kept_together(item.path.as_posix()), []).append(item)
    computing = [tests for tests in modules.values() if _any_marked(tests, *COMPUTING)]
    waiting = [tests for tests in modules.values() if tests not in computing and _any_marked(tests, "server")]
    small = [tests for tests in modules.values() if tests not in computing and tests not in waiting]
    spread = [((number + 0.5) / len(some), tests) for some in (computing, waiting) for number, tests in enumerate(some)]
    ordered = [tests for _, tests in sorted(spread, key=lambda one: one[0])] + small
    return [item for tests in ordered for item in tests]


def _any_marked(tests: Sequence[pytest.Item], *marks: str) -> bool:
    return any(item.get_closest_marker(mark) for item in tests for mark in marks)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without looking for garbage: modules and tests are none, nor will they be any later.

    Tests of models make millions of small objects and next to no garbage: it is looked for more rarely.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs a server; leave out what this machine cannot run (unless servers are required)."""
    pool = config.stash[POOL]
    reasons: dict[str, ServerUnavailable | None] = {}
    kept, dropped = [], []
    no_tidb = available(*KINDS[TIDB])
    for item in items:
        if not takes_turn(item):
            dropped.append(item)
            continue
        needed = servers_of(item)
        if needed:
            item.add_marker(pytest.mark.server)
        if f"{TIDB}_target" in needed and no_tidb is not None:
            item.add_marker(pytest.mark.skip(reason=str(no_tidb)))  # before any fixture, and named by `pytest -rs`
            kept.append(item)
            continue
        reason = None
        for name in sorted(needed) if not REQUIRED and not config.option.collectonly else ():
            kind = _kind_of(name)
            if kind not in reasons:
                reasons[kind] = available(*KINDS[kind])
            reason = reason or reasons[kind]
        if reason is None:
            pool.wanted |= needed
            kept.append(item)
        else:
            pool.left_out[first_line(reason)] += 1
            dropped.append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
    items[:] = mixed(kept) if hasattr(config, "workerinput") else kept


def pytest_sessionfinish(session: pytest.Session) -> None:
    pool = session.config.stash[POOL]
    if hasattr(session.config, "workeroutput"):  # one of several sessions: the summary is printed elsewhere
        session.config.workeroutput[LEFT_OUT] = dict(pool.left_out)
    pool.close(keep_logs=session.testsfailed > 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A session has ended that ran beside others."""
    left_out: Counter[str] = node.config.stash[POOL].left_out
    for reason, count in getattr(node, "workeroutput", {}).get(LEFT_OUT, {}).items():
        left_out[reason] = max(left_out[reason], count)  # each session collects all tests


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    pool = config.stash[POOL]
    logs = [server.log for server in pool.running if server.log.exists()]
    if logs:
        terminalreporter.write_line(f"server logs are kept in {pool.root}")
    for reason, count in pool.left_out.items():
        terminalreporter.write_line(f"LEFT OUT: {count} tests, because {reason}", yellow=True, bold=True)


# Fixtures


@pytest.fixture(scope="session")
def server_pool(pytestconfig: pytest.Config) -> ServerPool:
    return pytestconfig.stash[POOL]


def _server(name: str) -> Any:
    @pytest.fixture(scope="session", name=name)
    def server(server_pool: ServerPool) -> Server:
        return server_pool.get(name)

    return server


mariadb_source, mariadb_target = _server("mariadb_source"), _server("mariadb_target")
mysql_source, mysql_target = _server("mysql_source"), _server("mysql_target")
mariadb11_source, tidb_target = _server("mariadb11_source"), _server("tidb_target")


@pytest.fixture(scope="session")
def source(request: pytest.FixtureRequest, server_pool: ServerPool) -> Server:
    """An upstream of either flavour, binlog and GTIDs on."""
    return server_pool.get(f"{request.param}_source")


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest, server_pool: ServerPool) -> Server:
    """A downstream of either flavour; never the same server as `source`."""
    return server_pool.get(f"{request.param}_target")


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every answer of a source take 150 ms to the product."""
    monkeypatch.setenv(far_away_module.VARIABLE, str(far_away_module.USUAL_MS))


@pytest.fixture(autouse=True)
def _servers_survive(server_pool: ServerPool) -> Iterator[None]:
    yield
    server_pool.revive()


@pytest.fixture(autouse=True)
def _log_handlers_end_with_their_test() -> Iterator[None]:
    """A command that runs in this process logs to the stderr that pytest gives it, which is closed after the test: a
    later test would see the tracebacks of `logging`."""
    before = list(logging.root.handlers)
    yield
    for handler in list(logging.root.handlers):
        if handler not in before:
            logging.root.removeHandler(handler)


@pytest.fixture
def unique_database(request: pytest.FixtureRequest, server_pool: ServerPool) -> Iterator[str]:
    """A database name of this test's own, created nowhere. All that begin with it are dropped afterwards, from the
    servers that the test has asked for."""
    readable = re.sub(r"[^a-z0-9]+", "_", request.node.name.lower().removeprefix("test_"))[:24].strip("_")
    name = f"t_{readable}_{uuid.uuid4().hex[:8]}"
    yield name
    used = servers_of(request.node)
    for server in server_pool.running:
        if server.name in used:
            _drop_databases(server, name)


@pytest.fixture
def fresh_schema(unique_database: str) -> FreshSchema:
    """`fresh_schema(source, target)` creates `unique_database` on those servers and gives its name.

    `fresh_schema(source, suffix="_00")` makes a further one. All are dropped afterwards."""

    def create(*servers: Server, suffix: str = "") -> str:
        for server in servers:
            server.sql(f"CREATE DATABASE `{unique_database}{suffix}`")
        return f"{unique_database}{suffix}"

    return create


@pytest.fixture
def start_own(tmp_path: Path) -> Iterator[StartServers]:
    """`start_own(ServerSpec(…), …)` starts servers for one test alone, as when it needs other options."""
    started: list[Server] = []

    def start(*specs: ServerSpec) -> list[Server]:
        try:
            fresh = start_servers(specs, tmp_path / f"servers-{len(started)}")
        except ServerUnavailable as error:
            if REQUIRED:
                raise
            pytest.skip(first_line(error))
        started.extend(fresh)
        return fresh

    yield start
    stop_servers(started, keep_logs=True)  # pytest keeps tmp_path of the last runs, logs included


def _drop_databases(server: Server, prefix: str) -> None:
    try:
        found = server.sql(
            "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE %s", [f"{prefix}%"]
        )
        for (name,) in found:
            server.sql(f"DROP DATABASE IF EXISTS `{name}`")
    except pymysql.err.Error as error:
        # A metadata lock left by a test must not turn the next, innocent test red; the server goes with the session.
        print(f"{server.name}: {prefix}* was not dropped: {error}", file=sys.stderr)
