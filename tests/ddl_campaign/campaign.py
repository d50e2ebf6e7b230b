"""Runs cases from one server to another, and finds what comes of each.

The tables of some cases are made at the source and followed into the target, with their rows. Then their statements are
executed at the source, with rows after each; the sync follows, and all tables are compared. If the sync stops, the
case that the error names has the error's code. Its remedy is tried, if the campaign does that; then a new task begins
after the log's end, and cases that it has not followed are tried again, alone as are all that are known to stop.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pymysql

from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, SqlPattern
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.verify.verification import verify
from testbed import Server
from tests.ddl_campaign.cases import EQUAL, Case, named
from tests.ddl_campaign.comparing import columns_of, different
from tests.integration.sync.conftest import SOURCE_ID, SyncKit
from tests.jobs import META_VARIABLE
from tests.metadata_db import new_meta_db

AT_ONCE: Final = 12
"""Cases whose tables one run of the sync creates."""
ATTEMPTS: Final = 5
DIFFERENT: Final = "DIFFERENT"
REFUSED: Final = "refused by the source"
BEHIND: Final = 200
"""What is added to the ids of rows that are written after a statement."""
_OFFENDING: Final = re.compile(r"at row (\d+)")
STRICT: Final = "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"


@dataclass
class Tried:
    """A case under a name of its own, and what came of it."""

    case: Case
    table: str
    outcome: str = ""
    why: str = ""
    remedy: str = ""
    """EQUAL or DIFFERENT after the remedy of its stop; "": not tried."""


@contextmanager
def campaign_kit(source: Server, target: Server, schema: str, folder: Path) -> Iterator[SyncKit]:
    """Make syncs of a schema that exists on both servers."""
    url = new_meta_db(folder)
    os.environ[META_VARIABLE] = url
    with MetaStore.open(url) as store:
        kit = SyncKit(source, target, schema, folder, store, url)
        try:
            yield kit
        finally:
            kit.close()


@dataclass
class Campaign:
    """Cases from one server to another. `remedies`: those of stops are tried."""

    kit: SyncKit
    remedies: bool = False
    begun: int = 0
    numbers: int = 0
    settled: list[Tried] = field(default_factory=list)

    def run(self, cases: Sequence[Case]) -> list[Tried]:
        """Return what came of each case that the source's flavour has."""
        source, target = self.kit.source.flavour, self.kit.target.flavour
        ours = [case for case in cases if source in case.flavours]
        followed = [case for case in ours if case.expected(source, target) == EQUAL]
        groups = [followed[at : at + AT_ONCE] for at in range(0, len(followed), AT_ONCE)]
        groups += [[case] for case in ours if case not in followed]
        self._begin()
        while groups:
            some = [self._tried(case) for case in groups.pop(0)]
            self._try(some)
            groups[:0] = [[one.case] for one in some if not one.outcome]
        return self.settled

    def _tried(self, case: Case) -> Tried:
        self.numbers += 1
        return Tried(case, f"c{self.numbers}")

    def _begin(self) -> None:
        """A new task, whose start is the log's end."""
        self.begun += 1
        self.kit.task = f"task{self.begun}"
        self.kit.begin()

    def _try(self, some: Sequence[Tried]) -> None:
        for one in some:
            self._execute(one, one.case.setup, strict=False)
        stopped = self._followed(some)
        if stopped is None:
            for one in some:
                self._alter(one)
            altered = [one for one in some if not one.outcome]
            stopped = self._followed(altered)
            for one in altered if stopped is None else altered[: altered.index(stopped)]:
                self._settle(one, *self._compared(one))
            if stopped is not None and self.remedies:
                self._remedy(stopped)
        self._drop(self.kit.source, some)
        if stopped is not None:
            self._drop(self.kit.target, some)
            self._begin()

    def _followed(self, some: Sequence[Tried]) -> Tried | None:
        """Sync; return the case that it stopped at, whose outcome is set."""
        try:
            self._sync()
        except DmError as error:
            text = str(error)
            found = [one for one in some if re.search(rf"\b{one.table}(\b|_)", text)]
            if not found:
                error.add_note(f"in {[str(one.case) for one in some]}")
                raise
            self._settle(found[0], error.code, text)
            return found[0]
        return None

    def _sync(self) -> None:
        """Sync; begin again after errors that may pass, as a scheduler does. Raises DmError."""
        for attempt in range(ATTEMPTS):
            try:
                self.kit.sync()
                return
            except DmError as error:
                if error.reaction is not Reaction.RETRY or attempt == ATTEMPTS - 1:
                    raise

    def _settle(self, one: Tried, outcome: str, why: str = "") -> None:
        one.outcome, one.why = outcome, why
        self.settled.append(one)

    # At the source

    def _alter(self, one: Tried) -> None:
        """Execute the statement, without the rows that the server refuses for it, and write rows after it."""
        for statement in one.case.statements:
            while (error := self._execute(one, [statement], strict=one.case.strict)) is not None:
                row = _OFFENDING.search(str(error))
                if row is None or one.case.types is None or not self._remove(one, int(row[1])):
                    self._settle(one, REFUSED, str(error))
                    return
        for sql in self._rows_behind(one):
            self._execute(one, [sql], strict=one.case.strict)

    def _remove(self, one: Tried, row: int) -> bool:
        found = self.kit.source.sql(f"SELECT id FROM {one.table} ORDER BY id", database=self.kit.schema)
        if row > len(found):
            return False
        self.kit.write(f"DELETE FROM {one.table} WHERE id = {found[row - 1][0]}")
        return True

    def _rows_behind(self, one: Tried) -> Iterator[str]:
        yield "INSERT INTO t (id) VALUES (150)"
        if one.case.types is not None:
            yield from (f"INSERT INTO t (id, c) VALUES ({100 + at}, {cell})" for at, cell in enumerate(one.case.values))
            yield "UPDATE t SET v = v + 1 WHERE id > 1"
        for table in self._tables(one):
            names = columns_of(self.kit.source, self.kit.schema, table)
            if "id" not in names:
                continue
            others = [name for name in names if name != "id"]
            listed = "".join(f", `{name}`" for name in others)
            mine = table.replace(one.table, "t", 1)
            yield f"INSERT INTO {mine} (id{listed}) SELECT id + {BEHIND}{listed} FROM {mine} WHERE id < 100"
            yield from (f"UPDATE {mine} SET `{name}` = NULL WHERE id = 2" for name in others)
            yield f"UPDATE {mine} SET id = id + {2 * BEHIND} WHERE id = 1"
            yield f"DELETE FROM {mine} WHERE id = 3"

    def _execute(self, one: Tried, statements: Sequence[str], *, strict: bool) -> pymysql.err.Error | None:
        """Execute statements, of which the source may refuse any but CREATE; return the last error."""
        failed = None
        with self.kit.source.connect(database=self.kit.schema) as connection, connection.cursor() as cursor:
            cursor.execute(f"SET sql_mode = '{STRICT if strict else ''}', time_zone = '+02:00', foreign_key_checks = 1")
            cursor.execute("SET timestamp = 1700000000")
            for statement in statements:
                try:
                    cursor.execute(named(statement, one.table))
                except pymysql.err.Error as error:
                    failed = error
        return failed

    # Both servers

    def _tables(self, one: Tried) -> list[str]:
        rows = self.kit.source.sql(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE'",
            [self.kit.schema],
        )
        return sorted(name for (name,) in rows if _is_of(name, one))

    def _compared(self, one: Tried, *, definitions: bool = True) -> tuple[str, str]:
        servers = self.kit.source, self.kit.target
        found = different(*servers, self.kit.schema, [one.table], definitions=definitions)
        if tables := self._tables(one):
            with self._tables_of_task("do-tables", tables):
                result = verify(self.kit.spec(), LocalRunner(1))
            found += [f"verify: {table}" for table in result["tables"] if not table["equal"]]
        return (DIFFERENT if found else EQUAL), "\n    ".join(found)

    @contextmanager
    def _tables_of_task(self, key: str, tables: Sequence[str]) -> Iterator[None]:
        listed = [{"db-name": self.kit.schema, "tbl-name": table} for table in tables]
        self.kit.task_keys = {"block_allow_list": {"ours": {"do-dbs": [self.kit.schema], key: listed}}}
        try:
            yield
        finally:
            self.kit.task_keys = {}

    def _drop(self, server: Server, some: Sequence[Tried]) -> None:
        for name, kind in server.sql(f"SHOW FULL TABLES FROM `{self.kit.schema}`"):
            if any(_is_of(name, one) for one in some):
                what = "VIEW" if kind == "VIEW" else "TABLE"
                server.sql(f"SET foreign_key_checks = 0; DROP {what} IF EXISTS `{self.kit.schema}`.`{name}`")

    def _remedy(self, one: Tried) -> None:
        """Do what the case has for its stop; of a type change, what the error advises."""
        steps = one.case.remedy or _remedy_of_type_change(one.case)
        if not steps:
            return
        if steps == ("leave out",):
            with self._tables_of_task("ignore-tables", [one.table]):
                self._sync()
            one.remedy = EQUAL
            return
        ours = [named(step, f"`{self.kit.schema}`.{one.table}") for step in steps if not step.startswith("@ ")]
        place = SqlPattern(rf"\b{one.table}(_\w+)?\b")
        if ours[-1] == "skip":
            for sql in ours[:-1]:
                self.kit.target.sql(sql)
            decision = Operator(self.kit.task, SOURCE_ID, OperatorKind.SKIP, place)
        else:
            decision = Operator(self.kit.task, SOURCE_ID, OperatorKind.REPLACE, place, tuple(ours))
        self.kit.store.put_operators([decision])
        for step in steps:
            if step.startswith("@ "):
                self._execute(one, [step[2:]], strict=one.case.strict)
        try:
            self._sync()
            one.remedy, why = self._compared(one, definitions=not one.case.remedy)
        except DmError as error:
            one.remedy, why = error.code, str(error)
        if one.remedy != EQUAL:
            one.why += f"\n    behind its remedy: {why}"


def _remedy_of_type_change(case: Case) -> tuple[str, ...]:
    if case.types is None or " KEY" in case.line or " UNIQUE" in case.line:
        return ()
    _, new = case.types
    return (
        "ALTER TABLE t DROP COLUMN c",
        f"ALTER TABLE t ADD COLUMN c {new}",
        f"@ ALTER TABLE t ADD COLUMN exact {new}",
        "@ UPDATE t SET exact = c",
        f"@ ALTER TABLE t DROP COLUMN c, CHANGE exact c {new}",
    )


def _is_of(name: str, one: Tried) -> bool:
    return name == one.table or name.startswith(f"{one.table}_")
