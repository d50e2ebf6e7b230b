"""A sync whose log may fail it: the kit of the tests about private logs and about falling back to the upstream."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_dm.engine.config.job import SourceSpec
from airflow_provider_dm.engine.meta.records import RelayStatus
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.engine.relay.spec import RelaySpec, SpoolSpec
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.runner import LocalRunner
from testbed import Server
from tests.beside import beside
from tests.integration.sync.conftest import SOURCE_ID, SyncKit

MIB = 1 << 20
SMALL = EpochSize(limit=1 << 17, one_task=1 << 15, smallest=1 << 15)
"""Many epochs, each of several ranges, and the next one planned while one is applied."""


@dataclass
class TailKit(SyncKit):
    """A subtask whose relay log is a private one of `limit` bytes, or (`shared`) the source's own with the upstream to
    fall back to."""

    limit: int = MIB
    shared: bool = False
    until: Location | None = None
    """Where the run ends that the private log is pulled for."""
    progress: SyncProgress = field(default_factory=SyncProgress)
    elsewhere: Server | None = None
    """Another server that answers at the source's address."""

    @property
    def relay_dir(self) -> Path:
        return self.folder / "relay"

    @property
    def fallback_dir(self) -> Path:
        return self.folder / "upstream" / SOURCE_ID

    def source_spec(self) -> SourceSpec:
        login = self.endpoint(self.elsewhere or self.source, SOURCE_ID)
        self.source_keys = {"enable_relay": self.shared}
        fallback = str(self.fallback_dir) if self.shared else None
        return super().source_spec().model_copy(update={"endpoint": login, "fallback_dir": fallback})

    def relay_of(self, spec: RelaySpec) -> RelayProcess:
        spool = None if self.shared else SpoolSpec(task="test", limit_bytes=self.limit, until=self.until)
        return RelayProcess.start(spec.model_copy(update={"spool": spool}), os.environ, self.folder / "relay.log")

    def relay_status(self) -> RelayStatus:
        status = self.store.relay_status(SOURCE_ID)
        assert status is not None
        return status

    def held(self) -> Mapping[str, int]:
        """Size of every binlog file that is held, by name."""
        found = {}
        for path in self.relay_dir.glob("*/*bin.*"):
            with suppress(FileNotFoundError):
                found[path.name] = path.stat().st_size
        return found

    def relay_file(self, name: str) -> Path:
        (path,) = self.relay_dir.glob(f"*/{name}")
        return path

    def caught_up(self) -> bool:
        """The relay has all that the upstream has written by now."""
        end, status = self.upstream(), self.store.relay_status(SOURCE_ID)
        held = status.relay if status is not None else None  # a relay that is starting has reported nothing
        return held is not None and (held.file, held.position) == (end.file, end.position)

    def dumps(self) -> int:
        """Connections to the source that send its binlog."""
        return len(self.source.sql("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"))

    def fill(self, first: int, rows: int, *, each: int = 100) -> None:
        """Rows `first`… of `plain`-like table `wide`, in transactions of `each` rows."""
        for start in range(first, first + rows, each):
            values = ", ".join(
                f"({number}, REPEAT('{chr(97 + number % 26)}', 1000))" for number in range(start, start + each)
            )
            self.write(f"INSERT INTO wide VALUES {values}")

    def create_wide(self) -> None:
        self.tables = ("wide",)
        _ = self.first_file
        self.both("CREATE TABLE wide (id bigint NOT NULL PRIMARY KEY, v longtext NOT NULL)")

    def rotate(self) -> str:
        """The source continues in a new file; the name of the one before."""
        before = self.upstream().file
        self.source.sql("FLUSH BINARY LOGS")
        return before

    @contextmanager
    def syncing(self) -> Iterator[None]:
        """A sync that never ends by itself; its error is raised."""
        with beside(lambda stop: self.run(self.spec("forever"), LocalRunner(), stop, self.progress, SMALL)):
            yield

    def applied(self) -> bool:
        """The target has everything that the source has now. Megabytes are compared once there are as many rows."""
        return all(self._rows(self.source, name) == self._rows(self.target, name) for name in self.tables) and (
            self.differences() == []
        )

    def _rows(self, server: Server, table: str) -> int:
        ((rows,),) = server.sql(f"SELECT COUNT(*) FROM `{self.schema}`.`{table}`")
        return int(rows)
