"""A server beside its model: each statement is run by the one and applied to the other, and then both are compared."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pymysql

from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import STRICT_ALL_TABLES, SessionDefaults
from airflow_provider_dm.engine.ddl.server import Server as Upstream
from airflow_provider_dm.engine.ddl.statements import (
    CheckConstraint,
    ColumnDefinition,
    Constraint,
    KeyDefinition,
    TableDefinition,
)
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.connection import server_info
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.pinning import family_of
from airflow_provider_dm.engine.schema.catalogue import create_statement, read_tables
from airflow_provider_dm.engine.schema.model import Table
from testbed import Server
from tests.integration.binlog.reading import session
from tests.unit.ddl.table_of_statements import MODES

COMPARED = "compared"
CANNOT_TRACK = "CannotTrack: "
STRICT = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"
BITS = {"STRICT_ALL_TABLES": STRICT_ALL_TABLES} | MODES
SEEN_OPTIONS = ("ENGINE", "CHARSET", "COLLATE", "COMMENT")


@dataclass
class Oracle:
    """The server, the schema that statements are about, and the model of it."""

    server: Server
    schema: str
    history: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.writer = self.server.connect(database=self.schema)
        self.reader = session(self.server)
        flavour, version = family_of(server_info(self.reader).version)
        (lower,) = self.server.sql("SELECT @@lower_case_table_names")[0]
        self.upstream = Upstream(flavour, version, lower)
        self.begin()

    def begin(self, **settings: Any) -> None:
        """Empty the schema and begin a session. `settings`: its variables."""
        self.writer.close()
        self.server.sql(f"DROP DATABASE IF EXISTS `{self.schema}`; CREATE DATABASE `{self.schema}`")
        self.writer = self.server.connect(database=self.schema)
        for name, value in {"sql_mode": STRICT, "explicit_defaults_for_timestamp": 1, **settings}.items():
            with self.writer.cursor() as cursor:
                cursor.execute(f"SET SESSION {name} = %s", [value])
        (server_collation,) = self.server.sql("SELECT @@collation_server")[0]
        mode = sum(BITS.get(one, 0) for one in settings.get("sql_mode", STRICT).split(","))
        chosen: tuple[tuple[str, str], ...] = ()
        if "default_collation_for_utf8mb4" in settings:
            chosen = (("utf8mb4", settings["default_collation_for_utf8mb4"]),)
        elif self.upstream.mariadb and self.upstream.version >= (11, 5):
            ((text,),) = self.ask("SELECT @@character_set_collations")
            chosen = tuple(tuple(one.split("=")) for one in text.split(","))
        explicit = bool(settings.get("explicit_defaults_for_timestamp", 1))
        self.session = SessionDefaults(mode, server_collation, explicit, chosen)
        self.history = [f"-- {settings}"]
        self.tracker = self.fresh()

    def fresh(self) -> Tracker:
        """The model of what the server has now."""
        rows = self.server.sql(
            "SELECT default_collation_name FROM information_schema.schemata WHERE schema_name = %s", [self.schema]
        )
        texts = {name: create_statement(self.reader, name) for name in self.names()}
        return Tracker.of(self.upstream, texts, {self.schema: rows[0][0]})

    def names(self) -> set[TableName]:
        """The server's tables."""
        rows = self.ask("SHOW FULL TABLES WHERE table_type = 'BASE TABLE'")
        return {TableName(self.schema, name) for name, _ in rows}

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with self.writer.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def run(self, sql: str) -> str:
        """Run a statement on both sides and compare the tables that it is about; return what came of it."""
        outcome = self._run(sql)
        self.outcomes[outcome] += 1
        return outcome

    def _run(self, sql: str) -> str:
        try:
            with self.writer.cursor() as cursor:
                cursor.execute(sql)
        except pymysql.Error as error:
            if "OR REPLACE" in sql:  # MariaDB drops the old one first, and logs that
                self.tracker = self.fresh()
            return f"refused {error.args[0]}"
        self.history.append(sql)
        statement = parse(sql, self.session.sql_mode, self.schema)
        before = self.tracker.names()
        try:
            self.tracker = self.tracker.after(statement, self.session)
        except CannotTrack as reason:
            self.tracker = self.fresh()
            return f"{CANNOT_TRACK}{reason}"
        self.compare({*statement.tables} & (self.tracker.names() | before))
        return COMPARED

    def compare(self, names: set[TableName]) -> None:
        there = self.names()
        assert self.tracker.names() == there, self.story()
        for name in sorted(names & there):
            shown = create_statement(self.reader, name)
            ours, theirs = self.tracker.table(name), read_tables(self.reader, [name])[name]
            doubtful = any("REFERENCES" in sql for sql in self.history)
            if doubtful:
                ours, theirs = without_key_names(ours), without_key_names(theirs)
            assert ours == theirs, f"{self.story()}\n{shown}\n{difference(ours, theirs)}"
            context = Tracker.of(self.upstream, {name: shown}, {self.schema: "binary"})
            mine, servers = (
                seen(one, doubtful=doubtful) for one in (self.tracker.definition(name), context.definition(name))
            )
            assert mine == servers, f"{self.story()}\n{shown}\n{difference(mine, servers)}"
            again = Tracker.of(self.upstream, {name: self.tracker.create_sql(name)}, {})
            assert again.definition(name) == self.tracker.definition(name), (
                f"{self.story()}\n{self.tracker.create_sql(name)}\n"
                f"{difference(again.definition(name), self.tracker.definition(name))}"
            )

    def story(self) -> str:
        return ";\n".join(self.history[:1] + self.history[-12:])


def difference(ours: Any, theirs: Any) -> str:
    """Return what differs between two values, field by field."""
    lines = []
    for name in getattr(ours, "__dataclass_fields__", {}):
        one, other = getattr(ours, name), getattr(theirs, name)
        if one == other:
            continue
        if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
            lines += [f"{name}:\n  ours   {a}\n  theirs {b}" for a, b in zip(one, other, strict=True) if a != b]
        else:
            lines.append(f"{name}:\n  ours   {one}\n  theirs {other}")
    return "\n".join(lines)


def without_key_names(table: Table) -> Table:
    keys = sorted((replace(key, name="") for key in table.unique_keys), key=repr)
    return replace(table, unique_keys=tuple(keys))


def seen(definition: TableDefinition, *, doubtful: bool) -> TableDefinition:
    """A definition without what each side writes in its own words: expressions, and the values of defaults.

    Nor does the order of constraints matter to anybody.

    `doubtful`: which indexes the server has made for foreign keys, and forgets again, is not known for certain.
    """
    constraints = [
        _constraint(one) for one in definition.constraints if not (doubtful and isinstance(one, KeyDefinition))
    ]
    constraints.sort(
        key=lambda one: (type(one).__name__, str(one.name if isinstance(one, KeyDefinition) else one.constraint))
    )
    return replace(
        definition,
        columns=tuple(map(_column, definition.columns)),
        constraints=tuple(constraints),
        options=tuple(option for option in definition.options if option[0] in SEEN_OPTIONS),
        partitioning=None if definition.partitioning is None else "",
    )


def _column(column: ColumnDefinition) -> ColumnDefinition:
    # Each release prints an omitted moment, and an empty compressed text, in its own way.
    odd = column.type.name in ("timestamp", "datetime") or bool(column.options)
    return replace(
        column,
        default=None if column.default is None or odd else "",
        on_update=None if column.on_update is None or odd else "",
        generated=None if column.generated is None else "",
        checks=tuple(replace(one, expression="") for one in column.checks),
    )


def _constraint(constraint: Constraint) -> Constraint:
    match constraint:
        case CheckConstraint():
            return replace(constraint, expression="")
        case KeyDefinition():
            parts = tuple(replace(one, expression=one.expression and "") for one in constraint.parts)
            return replace(constraint, parts=parts)
    return constraint
