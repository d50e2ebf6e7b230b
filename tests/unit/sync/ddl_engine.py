"""The engine in the world of ddl_world.py: what it asks of machines it asks of the world, and the task that it runs.

The task has two sources. Their tables a, b, … go into schemas of their own, m_1, m_2, … of both into one table.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.ddl import tracker
from airflow_provider_dm.engine.ddl.apply_alter import altered_table
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.resolve import Context
from airflow_provider_dm.engine.ddl.statements import Spec, TableDefinition
from airflow_provider_dm.engine.ddl.table_of import table_of
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.downstream import ddl_execution, session, table_schema
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.table_schema import TableSchema
from airflow_provider_dm.engine.mysql.connection import ServerInfo, query, query_whole, server_info
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.schema.text_folds import ALPHANUMERIC, TextFold
from airflow_provider_dm.engine.sync.ddl import by_hand, source_definitions
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_making import SharedTargets, make_plan
from airflow_provider_dm.engine.sync.start import opening as start
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from tests.jobs import job_spec, source_spec
from tests.unit.sync.ddl_changes import MERGED
from tests.unit.sync.ddl_history import SCHEMA, TASK
from tests.unit.sync.ddl_ways import MODES
from tests.unit.sync.sqlite_target import META, Cursor

SOURCES: Final = ("one", "two")
TARGET: Final = ServerInfo(Flavour.MYSQL, "9.7.0", 1, "target")
MOST_REMEMBERED: Final = 20_000
TEXT: Final = "utf8mb4_general_ci"
FOLD: Final = TextFold(TEXT, "the model's", {ord(one): one.upper() for one in ALPHANUMERIC})
here: Final = SimpleNamespace(world=None)
"""`here.world` is the world that is played."""


class _Sessions:
    """The engine's connections, which are a run's here, and elsewhere a thread's."""

    @property
    def sessions(self) -> Any:
        return here.world.running.sessions


@contextmanager
def engine_in_the_world() -> Iterator[None]:
    """Let the engine find the world where it looks for machines."""
    still: Any = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _seconds: None)

    def opened(endpoint: object) -> session._Session:
        found: session._Session = here.world.opened(endpoint)
        return found

    def read_tables(_connection: object, names: Any) -> Any:
        tables = here.world.server.tables
        return {name: tables.tracker.table(name) for name in names if tables.has(name)}

    def read_all(_connection: object, names: Any) -> Any:
        return {name: here.world.server.tables.tracker.table(name) for name in names}  # an error for one not there

    cheaper: dict[str, tuple[Any, Any]] = {
        "parse": (parse, cache(parse)),  # texts are the same again and again
        "server_info": (server_info, lambda _connection: TARGET),
        "query_whole": (query_whole, _query_whole),
        "table_of": (table_of, remembered(table_of)),
    }
    modules = [vars(module) for module in sys.modules.copy().values()]
    with (
        patch.object(session, "_open", opened),
        patch.object(session, "_cache", _Sessions()),
        patch.object(session, "time", still),
        patch.object(by_hand, "time", still),
        patch.object(ddl_execution, "time", still),
        patch.object(ddl_execution, "set_all", lambda *_, **__: None),
        patch.object(ddl_execution, "check_keyless", lambda *_: None),
        patch.object(start, "read_tables", read_tables),
        patch.object(start, "read_folds", lambda _connection, names: {one: FOLD for one in names if one == TEXT}),
        patch.object(start, "make_plan", _made_plan()),
        patch.object(source_definitions, "connected", lambda _endpoint: nullcontext(_Upstream())),
        ExitStack() as stack,  # ends first: it puts back whole modules, as patched above
    ):
        for name, (real, instead) in cheaper.items():
            for names in modules:
                if names.get(name) is real:
                    stack.enter_context(patch.dict(names, {name: instead}))
        whats_made: tuple[tuple[Any, str], ...] = (
            (SyncPlan, "fingerprint"),
            (table_schema, "_json"),
            (JobSpec, "subtask"),
            (SubtaskRules, "of"),
        )
        for owner, name in whats_made:
            stack.enter_context(patch.object(owner, name, remembered(getattr(owner, name))))
        stack.enter_context(patch.object(Tracker, "with_table", _with_table()))
        stack.enter_context(patch.object(tracker, "altered_table", _altered()))
        yield


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with a cache by identity of its arguments, which are immutable values."""
    known: dict[tuple[object, ...], tuple[object, ...]] = {}

    def found(*values: Any) -> Any:
        key = tuple([value if isinstance(value, str | tuple) else id(value) for value in values])
        if key not in known:
            if len(known) > MOST_REMEMBERED:
                known.clear()
            known[key] = (function(*values), values)  # which are kept, so that no other one has their place
        return known[key][0]

    return found


def _altered() -> Callable[..., TableDefinition]:
    """Return `altered_table` with a cache of its results: here they do not depend on the table's name or the caller."""
    real, known = altered_table, dict[tuple[object, ...], TableDefinition]()

    def found(context: Context, table: TableDefinition, specs: Sequence[Spec]) -> TableDefinition:
        key = (context.server, table, specs)
        if key not in known:
            known[key] = real(context, table, specs)
        return known[key]

    return found


def _with_table() -> Callable[[Tracker, TableName, str], Tracker]:
    """Return `Tracker.with_table` with a cache of parsed texts."""
    real, known = Tracker.with_table, dict[tuple[object, ...], TableDefinition]()

    def with_table(tracker: Tracker, name: TableName, create_sql: str) -> Tracker:
        key = (name, create_sql, *sorted(tracker.collations().items()))
        if key not in known:
            known[key] = real(tracker, name, create_sql).definition(name)
        return tracker._with(name, known[key])

    return with_table


def _made_plan() -> Callable[..., SyncPlan]:
    """Return `make_plan` with a cache: tables look the same again and again. Their folds are always the same."""
    known = dict[tuple[object, ...], SyncPlan]()

    def found(
        schemas: Sequence[TableSchema],
        targets: Mapping[TableName, Table],
        *,
        rules: SubtaskRules,
        shared: SharedTargets,
        **others: Any,
    ) -> SyncPlan:
        about = (*map(frozenset, (shared.elsewhere, shared.in_order, others["held"])), shared.owned)
        covered = frozenset(others["coverage"].items())
        key = (tuple(schemas), frozenset(targets.items()), id(rules), *about, covered, others["buckets"])
        if key not in known:
            known[key] = make_plan(schemas, targets, rules=rules, shared=shared, **others)
        return known[key]

    return found


def _query_whole(connection: Any, columns: str, rest: str, arguments: Any = (), *, tail: str = "") -> Any:
    """Query once: results are complete here."""
    return query(connection, f"SELECT {columns} {rest} {tail}", arguments)


class _Upstream(Cursor):
    """A connection to the source, which answers what kind of server it is."""

    def execute(self, sql: str, arguments: object = None) -> int:
        answers = {"SELECT VERSION()": "9.7.0", "SELECT @@global.lower_case_table_names": 0}
        self._found = [(answers[sql],)] if sql in answers else [(1, "source")] if "server_id" in sql else []
        return len(self._found)


@cache
def _job(mode: str, always: bool) -> JobSpec:
    routes = {name: {"schema-pattern": SCHEMA, "target-schema": name} for name in SOURCES}
    merged = {
        "schema-pattern": SCHEMA,
        "target-schema": SOURCES[0],
        "table-pattern": f"{MERGED}_*",
        "target-table": MERGED,
    }
    task = {
        "name": TASK,
        "task-mode": "all",
        "meta-schema": META,
        "routes": {**routes, "merged": merged},
        "block-allow-list": {"ours": {"do-dbs": [SCHEMA]}},
        "syncers": {"as-chosen": {**MODES[mode], "safe-mode": always}},
        "mysql-instances": [
            {
                "source-id": name,
                "route-rules": [name, "merged"],
                "block-allow-list": "ours",
                "syncer-config-name": "as-chosen",
            }
            for name in SOURCES
        ],
    }
    return job_spec(task, [source_spec(name) for name in SOURCES])


def ref_of(source: str) -> SubtaskRef:
    return SubtaskRef(META, TASK, source)


@cache
def _source(name: str, mode: str, always: bool) -> SyncSource:
    return SyncSource.of(_job(mode, always), Fence(ref_of(name), 0))


def source_of(fence: Fence, mode: str, *, always: bool) -> SyncSource:
    """Return the engine's view of a source, of a run with this generation. `always`: in safe mode."""
    known = _source(fence.ref.source, mode, always)
    source = replace(known, fence=fence)
    source.__dict__["rules"] = known.rules  # a cached property, which takes long to make
    return source


def routed(source: str, name: TableName) -> TableName:
    return _source(source, "folded", False).rules.router.route(name)
