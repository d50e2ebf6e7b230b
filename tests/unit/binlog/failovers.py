"""Relay logs of several servers that were each other's replicas, made by hand, and what a walk over them applies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, EpochLimits, Planned, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.repetitions import Repetitions
from airflow_provider_dm.engine.binlog.rows import decode_range
from airflow_provider_dm.engine.mysql.gtid import Interval, MariadbGtid, MariadbGtidSet, MysqlGtidSet, Sid
from airflow_provider_dm.engine.mysql.location import Location
from tests.unit.binlog.building import ORDERS, Log, order

HUGE = 1 << 40
A, B, C = (UUID(int=number) for number in (0xA, 0xB, 0xC))
IDS = {A: 1, B: 2, C: 3}
"""The ids of MariaDB's servers."""


@dataclass(frozen=True)
class T:
    """One transaction of a history. `kind`: rows, ddl, payload, statement (cannot be applied) or anonymous."""

    origin: UUID
    number: int
    kind: str = "rows"
    rows: int = 1
    domain: int = 0
    tag: str = ""

    @property
    def key(self) -> int:
        """Return what it inserts first: says which transaction was applied."""
        return (IDS[self.origin] * 10 + self.domain) * 1_000_000 + self.number * 100


@dataclass
class World:
    """Sub-directories of one relay, each a server with its files."""

    folder: Path
    flavour: str = "mysql"
    files: list[LogFile] = field(default_factory=list)
    repetitions: Repetitions = field(default_factory=Repetitions)

    def add(
        self, server: UUID, history: Sequence[T], *, before: str = "", torn: T | None = None, number: int = 1
    ) -> Log:
        """The next sub-directory, or with `number` above one the next file of the newest."""
        suffix = self.files[-1].suffix + (number == 1) if self.files else 1
        log = Log(self.flavour, name=f"bin-{server.int}.{number:06d}")
        log.before(before)
        for one in history:
            write(log, one)
        if torn is not None:
            begin(log, torn)
            log.change(None, order(torn.key))
        name = f"{server if self.flavour == 'mysql' else f'0-{IDS[server]}'}"
        folder = self.folder / f"{name}.{suffix:06d}"
        folder.mkdir(exist_ok=True)
        path = folder / log.name
        path.write_bytes(log.data)
        self.files = [LogFile(f.path, f.suffix, f.name, f.size, False, f.server_uuid) for f in self.files]
        self.files.append(LogFile(str(path), suffix, log.name, len(log.data), last=True, server_uuid=name))
        return log

    @property
    def first(self) -> Location:
        return Location(self.files[0].name, 4, suffix=self.files[0].suffix)

    def plan(
        self, lo: Location, *, goal: Location | None = None, max_bytes: int = HUGE, range_bytes: int = HUGE
    ) -> Planned:
        files = [one for one in self.files if (one.suffix, one.name) >= (lo.suffix, lo.file)]
        return plan_epoch(
            files,
            lo,
            EpochLimits(goal=goal, max_bytes=max_bytes, range_bytes=range_bytes),
            repetitions=self.repetitions,
        )

    def walk(
        self, lo: Location | None = None, *, max_bytes: int = HUGE, range_bytes: int = HUGE, forget: bool = False
    ) -> Iterator[Epoch | DdlStatement | UpToDate]:
        """Everything from `lo` on; the last one says where it ends. `forget`: each plan knows nothing of the last."""
        here = lo or self.first
        while True:
            if forget:
                self.repetitions = Repetitions()
            planned = self.plan(here, max_bytes=max_bytes, range_bytes=range_bytes)
            yield planned
            match planned:
                case Epoch(hi=hi):
                    here = hi
                case DdlStatement(end=end):
                    here = end
                case UpToDate():
                    return


def begin(log: Log, one: T) -> None:
    if one.tag:
        log.sequence = one.number - 1
        log.tagged_gtid(one.tag, uuid=one.origin)
    elif one.kind == "anonymous":
        log.add(34, bytes(42))
    else:
        log.gtid(
            sequence=one.number,
            uuid=one.origin,
            domain=one.domain,
            server_id=IDS[one.origin],
            standalone=one.kind in ("ddl", "statement"),
        )
    if log.flavour == "mysql" and one.kind in ("rows", "anonymous"):
        log.query("BEGIN")


def write(log: Log, one: T) -> None:
    begin(log, one)
    match one.kind:
        case "ddl":
            log.query(f"ALTER TABLE t COMMENT '{one.key}'")
        case "statement":
            log.query("BEGIN") if log.flavour == "mysql" else None
            log.query("UPDATE orders SET note = now()")
            log.xid() if log.flavour == "mysql" else None
        case "payload":
            inner = Log.inner()
            inner.query("BEGIN")
            inner.change(None, order(one.key))
            inner.xid()
            log.payload(inner)
        case _:
            for row in range(one.rows):
                log.change(None, order(one.key + row))
            log.xid()


def keys_of(epoch: Epoch) -> list[int]:
    changes = [change for one in epoch.ranges for change in decode_range(one, WantedTables.whole([ORDERS]))]
    return [int(change.after[0] or 0) for change in changes if change.after]


def applied(world: World, lo: Location | None = None, **options: object) -> tuple[list[int], Location]:
    """The keys in the order in which they are applied (DDL by the key in its comment), and the end."""
    found: list[int] = []
    for planned in world.walk(lo, **options):  # type: ignore[arg-type]
        match planned:
            case Epoch():
                found += keys_of(planned)
            case DdlStatement(sql=sql):
                found.append(int(sql.rpartition("COMMENT")[2].strip(" '")))
            case UpToDate(at):
                return found, at
    raise AssertionError("a walk ends")


def set_of(history: Sequence[T], flavour: str) -> str:
    """The GTID set of these transactions."""
    if flavour == "mariadb":
        return str(MariadbGtidSet.of(MariadbGtid(one.domain, IDS[one.origin], one.number) for one in history))
    numbered = [one for one in history if one.kind != "anonymous"]
    return str(MysqlGtidSet.of((Sid(str(one.origin), one.tag), Interval(one.number, one.number)) for one in numbered))


def keys(history: Sequence[T]) -> list[int]:
    """Return what is applied of them, each once."""
    return [one.key + row for one in history for row in range(one.rows)]
