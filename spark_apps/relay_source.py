"""`spark.read.format("dm_relay")`: the row changes in a relay directory, for audits. Nothing is written.

    from spark_apps.relay_source import RelaySource
    spark.dataSource.register(RelaySource)
    changes = spark.read.format("dm_relay").option("source", "source.yaml").load("/relay/mysql-01")

The result has one row for each changed row, with the columns of `engine.audit.arrow.schema_of`. The driver plans
(headers only), the executors read the files and decode, so all of them must have the directory under the same path.
Table definitions come from the source, from a task's checkpoint in the target, or from a file; if they do not fit the
log, the read stops at that location.
docs/how-to/audit.md has the options and examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from airflow_provider_dm.engine.audit.arrow import AnyTable, OneTable, Shape, record_batches, schema_of
from airflow_provider_dm.engine.audit.errors import TableUndefined
from airflow_provider_dm.engine.audit.pieces import PIECE_BYTES, LogPiece, audit_pieces
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.config.yaml_file import load_source, load_task
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.subtask import begun_subtasks
from airflow_provider_dm.engine.downstream.table_schema import load_table_schemas
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.identifiers import SYSTEM_SCHEMAS, TableName
from airflow_provider_dm.engine.relay.errors import RelayFileGone
from airflow_provider_dm.engine.schema.definitions_file import current_definitions, read_definitions
from airflow_provider_dm.engine.schema.model import Table

if TYPE_CHECKING:
    import pyarrow as pa

KNOWN: Final = frozenset(
    {"path", "source", "task", "definitions", "table", "schema", "start", "end", "text", "undefined", "piece-bytes"}
)
_OPTIONS: Final = "docs/how-to/audit.md lists the options."


def _option_refused(option: str, reason: str) -> InvalidInput:
    return InvalidInput(f'the option "{option}" of dm_relay {reason}.', _OPTIONS)


@dataclass(frozen=True)
class SourceOptions:
    path: Path
    source: Path | None
    task: Path | None
    definitions: Path | None
    table: TableName | None
    schema: str | None
    start: str | None
    end: str | None
    text_as_bytes: bool
    skip_undefined: bool
    piece_bytes: int

    @classmethod
    def of(cls, given: Mapping[str, str]) -> SourceOptions:
        """Read the options. Raises InvalidInput. Names are compared without case, as Spark does."""
        options = {name.lower(): value for name, value in given.items()}
        unknown = sorted(options.keys() - KNOWN)
        if unknown:
            raise _option_refused(unknown[0], "is not known")
        if "path" not in options:
            raise _option_refused("path", "is missing: the relay directory of one source")
        if ("source" in options) == ("definitions" in options):
            raise InvalidInput('dm_relay needs exactly one of the options "source" and "definitions".', _OPTIONS)
        if "task" in options and "source" not in options:
            raise _option_refused("task", 'needs "source", the source.yaml of the source whose rows are read')
        return cls(
            path=Path(options["path"]),
            source=Path(options["source"]) if "source" in options else None,
            task=Path(options["task"]) if "task" in options else None,
            definitions=Path(options["definitions"]) if "definitions" in options else None,
            table=_table_name(options["table"], options.get("schema")) if "table" in options else None,
            schema=options.get("schema"),
            start=options.get("start"),
            end=options.get("end"),
            text_as_bytes=_choice(options, "text", "string", "binary"),
            skip_undefined=_choice(options, "undefined", "stop", "skip"),
            piece_bytes=_size(options.get("piece-bytes", str(PIECE_BYTES))),
        )

    def wants(self, name: TableName) -> bool:
        """Return True if rows of this table are requested, with or without a definition."""
        if self.table is not None:
            return name == self.table
        if self.schema is not None:
            return name.schema == self.schema
        return name.schema.lower() not in SYSTEM_SCHEMAS


def _table_name(text: str, schema: str | None) -> TableName:
    """Parse `SCHEMA.TABLE`; with `schema`, the whole text is the table's name and may contain dots."""
    if schema is not None:
        return TableName(schema, text)
    schema, dot, table = text.partition(".")
    if not (schema and dot and table):
        raise _option_refused("table", f"is {text!r}, and should be SCHEMA.TABLE")
    return TableName(schema, table)


def _choice(options: Mapping[str, str], name: str, usual: str, other: str) -> bool:
    """Return True if the option is `other`. Raises InvalidInput for a value that is neither `usual` nor `other`."""
    value = options.get(name, usual).lower()
    if value not in (usual, other):
        raise _option_refused(name, f"is {value!r}, and should be {usual} or {other}")
    return value == other


def _size(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise _option_refused("piece-bytes", f"is {text!r}, and should be a number of bytes")
    return int(text)


class RelaySource(DataSource):
    """The format `dm_relay`, batch reads only."""

    @classmethod
    def name(cls) -> str:
        return "dm_relay"

    @cached_property
    def asked(self) -> SourceOptions:
        """The options of this read. Raises InvalidInput."""
        return SourceOptions.of(self.options)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The requested definitions. Read once, on the driver: executors get them with this object, without a login."""
        asked = self.asked
        tables = [table for table in _definitions(asked) if asked.wants(table.name)]
        if asked.table is not None and not tables:
            raise _option_refused("table", f"is {asked.table}, of which there is no definition")
        return tuple(tables)

    def schema(self) -> StructType:
        """Return the schema of the rows. Raises UnsupportedColumnType, with the option `table`."""
        return from_arrow_schema(schema_of(_shape(self.asked, self.tables)))

    def reader(self, schema: StructType) -> RelaySourceReader:
        return RelaySourceReader(self.asked, self.tables)


def _shape(asked: SourceOptions, tables: tuple[Table, ...]) -> Shape:
    if asked.table is not None:
        return OneTable(tables[0], text_as_bytes=asked.text_as_bytes)
    return AnyTable(tables, text_as_bytes=asked.text_as_bytes)


def _definitions(asked: SourceOptions) -> tuple[Table, ...]:
    """Read the definitions of the tables. Raises InvalidInput, and errors of the login and of the catalogue."""
    if asked.definitions is not None:
        return read_definitions(asked.definitions)
    assert asked.source is not None
    config = load_source(asked.source)
    if asked.task is not None:
        return _known_to_task(asked.task, config.source_id)
    if config.from_ is None:
        raise _option_refused("source", f"is {asked.source}, which has no `from` to log in with")
    with connected(config.from_.endpoint(config.source_id)) as connection:
        return current_definitions(connection)


def _known_to_task(path: Path, source_id: str) -> tuple[Table, ...]:
    """Return the tables of one source as its sync reads them now. Raises InvalidInput."""
    task = load_task(path)
    if task.target_database is None:
        raise _option_refused("task", f"is {path}, which has no `target-database` to log in with")
    with connected(task.target_database.endpoint("target")) as connection:
        if not begun_subtasks(connection, task.meta_schema, task.name, [source_id]):
            raise _option_refused("task", f"is {path}, and its source {source_id} has not begun in the target")
        ref = SubtaskRef(task.meta_schema, task.name, source_id)
        return tuple(schema.table for schema in load_table_schemas(connection, ref))


@dataclass(frozen=True)
class PiecePartition(InputPartition):
    piece: LogPiece


class RelaySourceReader(DataSourceReader):
    """The reader of a relay log: it plans on the driver, and reads on executors."""

    def __init__(self, asked: SourceOptions, tables: tuple[Table, ...]) -> None:
        self.asked = asked
        self.tables = tables

    def partitions(self) -> list[InputPartition]:
        """Return one partition for each piece of the log. Raises the errors of `audit_pieces`."""
        asked = self.asked
        pieces = audit_pieces(asked.path, start=asked.start, end=asked.end, piece_bytes=asked.piece_bytes)
        return [PiecePartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a piece. Raises errors of decoding, TableUndefined and UndecodableText, each with its
        location.
        """
        if not isinstance(partition, PiecePartition):  # Spark's own, for a log without a change
            return
        piece = partition.piece
        try:
            yield from record_batches(
                piece.range,
                self._wanted(piece),
                _shape(self.asked, self.tables),
                sub_dir=piece.sub_dir,
                gtid=piece.gtid,
            )
        except FileNotFoundError as error:
            raise RelayFileGone(piece.range.file, str(Path(piece.range.path).parent)) from error

    def _wanted(self, piece: LogPiece) -> WantedTables:
        asked, byte_range = self.asked, piece.range

        def other(name: TableName) -> None:
            if asked.wants(name) and not asked.skip_undefined:
                raise TableUndefined(str(name), f"{byte_range.file}:{byte_range.start} to {byte_range.end}")

        return WantedTables.whole(self.tables, other)
