"""Comparison of all tables of a task: pieces are summed by the runner, unequal classes are bisected down to rows.

Every row of every mapped table is read once on each side. The two sides may be divided into different pieces, because
sums of pieces add up, also those of merged source tables. The result is valid only if nothing is written meanwhile:
after the cut-over, or while the source is idle and all its changes are applied.

The source's current tables are compared: tables created since the load are included, dropped tables are not. A target
table that is missing or has other columns, as a DDL is not applied yet, counts as different; its rows are not read.

A merged table contains the rows of all its shards. While a DDL lock holds rows back, a real difference cannot be
distinguished from a held-back row, so the comparison of such a table reports the lock and lists no differing rows.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.session import target_connection, target_dialect
from airflow_provider_dm.engine.downstream.shard_groups import HeldShard, held_shards, merged_targets
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.chunks import plan_chunks
from airflow_provider_dm.engine.reading.errors import SchemaChangedDuringCopy
from airflow_provider_dm.engine.reading.survey import (
    SourceSurvey,
    SourceTable,
    TargetSurvey,
    measure,
    survey_source,
    survey_target,
)
from airflow_provider_dm.engine.reading.text_rows import TextCells
from airflow_provider_dm.engine.rules.errors import TargetTableMismatch
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.schema.catalogue import has_table
from airflow_provider_dm.engine.schema.errors import TableNotFound
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.shard.lock import lock_id
from airflow_provider_dm.engine.verify.errors import ComparedTableMissing, DataDiffers, RowsHeldBack, SourceAltered
from airflow_provider_dm.engine.verify.piece import FindRows, FoundRow, SumPieces, TablePiece
from airflow_provider_dm.engine.verify.row_bytes import source_form, target_form
from airflow_provider_dm.engine.verify.sums import HashFocus, Sums, total

log = logging.getLogger(__name__)

TARGET_SIDE: Final = ""
"""The target's name among the servers: no source-id is empty."""
MOST_SHOWN: Final = 20
MOST_SHOWN_BYTES: Final = 64
FEW_ROWS: Final = 20_000
"""An unequal class of at most this size is compared row by row."""
MOST_FOCI: Final = 4
DEEPEST: Final = 4
COMPARISONS: Final = 3
"""Maximum number of comparisons if tables are altered meanwhile."""

Json = dict[str, Any]
A = TypeVar("A")
B = TypeVar("B")


class PieceRunner(Protocol):
    """The methods of a Runner that this module calls."""

    @property
    def slots(self) -> int: ...

    def run(self, task: Callable[[A], B], items: Sequence[A]) -> list[B]: ...


@dataclass
class Compared:
    """A target table to compare: its mappings with their source ids, and the pieces of both sides."""

    mappings: list[tuple[str, TableMapping]] = field(default_factory=list)
    source_pieces: list[TablePiece] = field(default_factory=list)
    target_pieces: list[TablePiece] = field(default_factory=list)

    @property
    def mapping(self) -> TableMapping:
        """Return the first mapping. All of them have the same target and columns."""
        return self.mappings[0][1]

    @property
    def target(self) -> TableName:
        return self.mapping.target.name


def verify(spec: JobSpec, runner: PieceRunner) -> Json:
    """Compare the sources' rows with the target's and return {"verified", "rows", "seconds", "tables": [{"target",
    "sources", "source_rows", "target_rows", "equal", "unequal_classes", "differing": [{"key", "in_sources",
    "in_target"}], "why"}]}. "rows" counts the target's rows; "why" is the reason why a table cannot be compared. If
    it is a DDL lock, the table also has "held_back": {"lock", "shards", "DDLs"}, and no row is listed as differing.

    At most MOST_SHOWN differing rows are listed per table. Raises ComparedTableMissing if the target has none of the
    tables, SourceAltered (retry), and the errors of reading.
    """
    began = time.monotonic()
    tables = _compared_with_retries(spec, runner)
    return {
        "verified": all(table["equal"] for table in tables),
        "rows": sum(table["target_rows"] for table in tables),
        "seconds": round(time.monotonic() - began, 3),
        "tables": tables,
    }


def _compared_with_retries(spec: JobSpec, runner: PieceRunner) -> list[Json]:
    attempt = 1
    while True:
        try:
            return _compared(spec, runner)
        except (SchemaChangedDuringCopy, TableNotFound) as error:
            if attempt == COMPARISONS:
                raise SourceAltered(error.happened()) from error
            log.warning("the comparison starts again: %s", error)
            attempt += 1


def _compared(spec: JobSpec, runner: PieceRunner) -> list[Json]:
    servers = {source.config.source_id: source.endpoint.resolve() for source in spec.sources}
    target = spec.target.resolve()

    def locks() -> dict[TableName, HeldBack]:
        return read_held_back(target_connection(target), spec.task.meta_schema, spec.task.name)

    before = locks()
    compared, misfits = _plan(spec, servers, target, runner.slots)
    all_servers = servers | {TARGET_SIDE: target}
    sums = _sum_up([side for one in compared for side in (one.source_pieces, one.target_pieces)], runner, all_servers)
    pairs = zip(compared, sums[::2], sums[1::2], strict=True)
    reports = [_report(table, source, target, runner, all_servers) for table, source, target in pairs]
    reports += [_misfit(target, sources, why) for target, (sources, why) in misfits.items()]
    held = {
        str(name): shard for name, shard in {**before, **locks()}.items()
    }  # a lock may exist only before or only after the comparison
    return [with_lock(table, held) for table in reports]


def failure(result: Json) -> DataDiffers | RowsHeldBack | None:
    """Return the error for a result, None if all tables are equal; RowsHeldBack only if nothing else differs."""
    unequal = [table for table in result["tables"] if not table["equal"]]
    wrong = [table for table in unequal if "held_back" not in table]
    if unequal and not wrong:
        held = (f"{table['target']} ({table['held_back']['lock']})" for table in unequal)
        return RowsHeldBack(tuple(held))
    shown = [
        f"{table['target']} ({table.get('why') or '{source_rows} / {target_rows} rows'.format_map(table)})"
        for table in wrong
    ]
    return DataDiffers(tuple(shown)) if wrong else None


def _plan(
    spec: JobSpec, servers: Mapping[str, Endpoint], target: Endpoint, slots: int
) -> tuple[list[Compared], dict[TableName, tuple[list[str], str]]]:
    """Return the tables to compare, and for each target that cannot be compared its source tables and the reason."""
    surveys = {name: survey_source(endpoint, SubtaskRules.of(spec.subtask(name))) for name, endpoint in servers.items()}
    in_target = survey_target(target, {table.target for survey in surveys.values() for table in survey.tables})
    server = target_dialect(target).server
    compared: dict[TableName, Compared] = {}
    mappings, misfits = _paired(surveys, in_target)
    for source_id, survey in surveys.items():
        known = [table for table in survey.tables if table.target not in misfits]
        for one in known:
            mapping = mappings[source_id, one.table.name]
            compared.setdefault(mapping.target.name, Compared()).mappings.append((source_id, mapping))
        measured = [(mappings[source_id, one.table.name].source, one.rows) for one in known]
        for size in _chunked(servers[source_id], measured, slots):
            mapping = mappings[source_id, size.table]
            piece = TablePiece(
                source_id, mapping.source, source_form(mapping, server), _key(mapping), size.low, size.high
            )
            compared[mapping.target.name].source_pieces.append(piece)
    for size in _chunked(target, [(in_target.tables[name], in_target.rows[name]) for name in compared], slots):
        entry = compared[size.table]
        mapping = entry.mapping
        piece = TablePiece(
            TARGET_SIDE, mapping.target, target_form(mapping, server), _key(mapping), size.low, size.high
        )
        entry.target_pieces.append(piece)
    return list(compared.values()), misfits


def _paired(
    surveys: Mapping[str, SourceSurvey], existing: TargetSurvey
) -> tuple[dict[tuple[str, TableName], TableMapping], dict[TableName, tuple[list[str], str]]]:
    """Return the mapping of each source table, except of those whose target cannot be compared, and these targets."""
    mappings: dict[tuple[str, TableName], TableMapping] = {}
    misfits: dict[TableName, str] = {}
    sources: defaultdict[TableName, list[str]] = defaultdict(list)
    for source_id, survey in surveys.items():
        for table in survey.tables:
            sources[table.target].append(f"{source_id}:{table.table.name}")
            try:
                mappings[source_id, table.table.name] = _mapping(table, existing)
            except (ComparedTableMissing, TargetTableMismatch) as error:
                if not existing.tables:
                    raise
                misfits.setdefault(table.target, error.happened())
    return mappings, {name: (sources[name], reason) for name, reason in misfits.items()}


def _misfit(target: TableName, sources: list[str], why: str) -> Json:
    log.error("%s cannot be compared: %s", target, why)
    nothing = {"source_rows": 0, "target_rows": 0, "unequal_classes": 0, "differing": []}
    return {"target": str(target), "sources": sources, "equal": False, "why": why, **nothing}


def _mapping(one: SourceTable, existing: TargetSurvey) -> TableMapping:
    if one.target not in existing.tables:
        raise ComparedTableMissing(str(one.target))
    return map_table(one.table, existing.tables[one.target], one.extracted)


def _chunked(endpoint: Endpoint, tables: Sequence[tuple[Table, int]], slots: int) -> list[ChunkProgress]:
    return plan_chunks(measure(endpoint, tables), slots=slots)


def _key(mapping: TableMapping) -> tuple[int, ...]:
    """Return the positions of the columns by which reports identify a row: the target's key, or all columns."""
    return mapping.key_places or tuple(range(len(mapping.source.columns)))


# Sums


def _sum_up(
    sides: Sequence[Sequence[TablePiece]],
    runner: PieceRunner,
    servers: dict[str, Endpoint],
    focus: HashFocus = HashFocus(),  # noqa: B008
) -> list[Sums]:
    """Return the sums of each side. All pieces of all sides are submitted to the runner at once."""
    work = [(piece, focus) for side in sides for piece in side]
    done = iter(runner.run(SumPieces(servers), work))
    return [total([next(done) for _ in side]) for side in sides]


def _report(one: Compared, source: Sums, target: Sums, runner: PieceRunner, servers: dict[str, Endpoint]) -> Json:
    unequal = source.unequal(target)
    if unequal:
        log.error("%s differs from its sources", one.target)
    foci = _small_foci(one, source, target, runner, servers) if unequal else []
    return {
        "target": str(one.target),
        "sources": [f"{source_id}:{mapping.source.name}" for source_id, mapping in one.mappings],
        "source_rows": source.rows,
        "target_rows": target.rows,
        "equal": not unequal,
        "unequal_classes": len(unequal),
        "differing": _differing(one, foci, runner, servers) if foci else [],
        "why": "",
    }


# Rows


def _differing(one: Compared, foci: list[HashFocus], runner: PieceRunner, servers: dict[str, Endpoint]) -> list[Json]:
    """Return the differing rows of these unequal classes, by key. A changed row is counted on both sides."""
    work = [(piece, focus) for focus in foci for piece in one.source_pieces + one.target_pieces]
    ours, theirs = Counter[FoundRow](), Counter[FoundRow]()
    for (piece, _), rows in zip(work, runner.run(FindRows(servers, FEW_ROWS), work), strict=True):
        (theirs if piece.server == TARGET_SIDE else ours).update(rows)
    by_key: defaultdict[TextCells, list[int]] = defaultdict(lambda: [0, 0])
    for row in ours | theirs:
        if ours[row] != theirs[row]:
            by_key[row.key][0] += ours[row]
            by_key[row.key][1] += theirs[row]
    names = [one.mapping.source.columns[position].name for position in _key(one.mapping)]
    return [
        {"key": dict(zip(names, map(_shown, key), strict=True)), "in_sources": in_sources, "in_target": in_target}
        for key, (in_sources, in_target) in sorted(by_key.items(), key=lambda item: repr(item[0]))[:MOST_SHOWN]
    ]


def _small_foci(
    one: Compared, source: Sums, target: Sums, runner: PieceRunner, servers: dict[str, Endpoint]
) -> list[HashFocus]:
    """Return unequal classes small enough to compare row by row: the smallest first, then classes inside large ones.

    More than one is needed, because the old and the new version of a changed row are in different classes.
    """
    small: list[HashFocus] = []
    large = [(HashFocus(), source, target)]
    while large and len(small) < MOST_FOCI:
        focus, source, target = large.pop(0)
        sizes = {number: int(source.counts[number] + target.counts[number]) for number in source.unequal(target)}
        for number in sorted(sizes, key=lambda number: sizes[number])[: MOST_FOCI - len(small)]:
            inner = focus.inside(number)
            if sizes[number] <= FEW_ROWS or inner.level == DEEPEST:
                small.append(inner)
            else:
                ours, theirs = _sum_up((one.source_pieces, one.target_pieces), runner, servers, inner)
                large.append((inner, ours, theirs))
    return small


def _shown(cell: bytes | None) -> str | None:
    return None if cell is None else cell[:MOST_SHOWN_BYTES].decode("utf-8", "backslashreplace")


# Merged tables whose rows a DDL lock holds back


@dataclass(frozen=True)
class HeldBack:
    """The DDL lock of a merged table, the shards whose rows it holds back, and the DDL that these shards wait for."""

    lock: str
    shards: tuple[str, ...]
    ddls: tuple[str, ...]

    @classmethod
    def of(cls, task: str, target: TableName, members: Iterable[HeldShard]) -> HeldBack:
        held = list(members)
        shards = tuple(f"{shard.source}:{shard.member.table}" for shard in held)
        ddls = dict.fromkeys(ddl for shard in held for item in shard.member.items[:1] for ddl in item.ddls)
        return cls(lock_id(task, target), shards, tuple(ddls))


def read_held_back(connection: Connection, meta_schema: str, task: str) -> dict[TableName, HeldBack]:
    """Return the locks that hold back rows of a task, by merged table. Raises IncompleteResult."""
    if not has_table(connection, TableName(meta_schema, "dm_shard_member")):
        return {}  # no sync has started
    ref = SubtaskRef(meta_schema, task, source="")  # all sources have the same merged tables
    held = {target: held_shards(connection, ref, target) for target in merged_targets(connection, ref)}
    return {target: HeldBack.of(task, target, members) for target, members in held.items() if members}


def with_lock(table: Json, held: Mapping[str, HeldBack]) -> Json:
    """Return the result of a table's comparison. If it differs while rows are held back, it has the lock, no rows."""
    lock = held.get(table["target"])
    if lock is None or table["equal"]:
        return table
    why = f"rows of {', '.join(lock.shards)} are held back by DDL lock {lock.lock}"
    why += f"; and {table['why']}" if table["why"] else ""  # a reason besides the lock
    held_back = {"lock": lock.lock, "shards": list(lock.shards), "DDLs": list(lock.ddls)}
    return {**table, "why": why, "differing": [], "held_back": held_back}
