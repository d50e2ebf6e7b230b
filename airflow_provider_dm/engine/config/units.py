"""Configuration of a task's units: mydumpers, loaders, syncers, validators. Defaults are DM's, except a syncer's."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AliasChoices, BeforeValidator, Field

from airflow_provider_dm.engine.config.base import DmModel, Lowered, OptionalSeconds, Seconds, empty_is

DEFAULT_DIR: Final = "./dumped_data"
MOST_WORKERS: Final = 16
"""DM's default: the maximum for a syncer without `worker-count`."""


def _zero_is(default: int) -> BeforeValidator:
    """Build a validator that replaces 0 by the default: DM's exports write 0 for values that were not given."""
    return BeforeValidator(lambda value: default if value in (0, "0") else value)


class OnDuplicate(StrEnum):
    """The full load's action for a row that the target already has."""

    REPLACE = "replace"
    IGNORE = "ignore"
    ERROR = "error"


class ImportMode(StrEnum):
    """How the full load writes. `sql` and `loader` are old names of `logical`."""

    LOGICAL = "logical"
    SQL = "sql"
    LOADER = "loader"
    PHYSICAL = "physical"
    IMPORT_INTO = "import-into"


class ValidatorMode(StrEnum):
    NONE = "none"
    FAST = "fast"
    FULL = "full"


class Apply(StrEnum):
    """The unit in which a sync writes. An extension."""

    CONCURRENT = "concurrent"
    """Independent changes are written concurrently, from any part of the log."""
    TRANSACTIONAL = "transactional"
    """Whole transactions of the source, one after the other."""


class Consistency(StrEnum):
    """The lock under which a copy opens its snapshots, by dumpling's names for `--consistency` (copy/snapshot.py)."""

    AUTO = "auto"
    FLUSH = "flush"
    LOCK = "lock"
    SNAPSHOT = "snapshot"
    NONE = "none"


class MydumperConfig(DmModel):
    """The reading half of the full migration."""

    threads: int = Field(default=4, ge=1)
    """Maximum number of concurrent readers of a source."""
    consistency: Annotated[Consistency, empty_is("auto"), Lowered] = Consistency.AUTO
    """Extension: DM has this option in `extra-args` only, which override this key."""
    rows: int | None = Field(default=None, ge=0)
    """Rows of a chunk, roughly; not given or 0: the copy decides."""
    chunk_filesize: str = "64"
    statement_size: int | None = None
    """Without effect: rows are not dumped to files. The precheck warns of other values than the default."""
    where: str = ""
    """Refused: whole tables are copied."""
    extra_args: str = ""
    """dumpling's options: `-t`, `-r`, `--consistency`, `--no-locks` count; those that choose rows or tables are
    refused."""
    mydumper_path: str = ""
    skip_tz_utc: bool = True
    """Without effect."""


class LoaderConfig(DmModel):
    """The writing half of the full migration."""

    pool_size: Annotated[int, _zero_is(16)] = Field(default=16, ge=1)
    """Maximum number of concurrent readers of a source; each writes the rows that it reads."""
    on_duplicate_logical: Annotated[OnDuplicate, Lowered] | None = Field(
        default=None, validation_alias=AliasChoices("on-duplicate-logical", "on-duplicate")
    )
    """`replace`: rows with the same key are replaced. Otherwise a duplicate stops the load. `ignore` is refused."""
    import_mode: Annotated[ImportMode, empty_is("logical"), Lowered] = ImportMode.LOGICAL
    """`logical` and its old names `sql`, `loader`; the others are refused."""
    dir: str = Field(default=DEFAULT_DIR, exclude=True, repr=False)
    """Without effect: rows are not dumped to files. It may be an S3 URL that contains a key, so it is never shown."""
    sorting_dir_physical: str = Field(default="", validation_alias=AliasChoices("sorting-dir-physical", "sorting-dir"))
    on_duplicate_physical: str = ""
    disk_quota_physical: str = Field(default="", validation_alias=AliasChoices("disk-quota-physical", "disk-quota"))
    checksum_physical: str = Field(default="", validation_alias=AliasChoices("checksum-physical", "checksum"))
    analyze: str = ""
    range_concurrency: int | None = None
    compress_kv_pairs: str = ""
    pd_addr: str = ""
    """Without effect: they belong to the physical import, which is refused."""

    def without_secrets(self) -> Self:
        return self.model_copy(update={"dir": DEFAULT_DIR})


DM_WORKERS_AND_BATCH: Final = (16, 100)


class SyncerConfig(DmModel):
    """The incremental sync. [Sync modes](../how-to/sync-modes.md) has the values of keys that are not given."""

    worker_count: int | None = Field(default=None, ge=1)
    """Connections that write to the target at the same time."""
    batch: int | None = Field(default=None, ge=1)
    """Maximum number of rows of one target transaction. DM's defaults, 100 beside a `worker-count` of 16, count as not
    given."""
    queue_size: Annotated[int, _zero_is(1024)] = Field(default=1024, ge=1)
    """Without effect: parts of the log are limited by their bytes and rows. The precheck warns of other values than the
    default."""
    checkpoint_flush_interval: Annotated[int, _zero_is(30)] = Field(default=30, ge=1)
    """Seconds between two writes of DM's checkpoint table."""
    compact: bool = True
    """All changes of a row in a part of the log are folded to one; otherwise every change is written."""
    multiple_rows: bool = True
    """A statement may write many rows."""
    apply: Annotated[Apply, Lowered] = Apply.CONCURRENT
    """Extension: `concurrent`: independent changes at the same time. `transactional`: whole transactions of the
    source, in order."""
    safe_mode: bool = False
    """True: conflicting rows are always overwritten ([safe mode](../how-to/safe-mode.md))."""
    safe_mode_duration: OptionalSeconds = None
    """Log time for which a start in the past is in safe mode; not given: twice the flush interval, `0s`: none."""
    meta_file: str = ""
    max_retry: int | None = None
    auto_fix_gtid: bool | None = None
    enable_gtid: bool | None = None
    disable_detect: bool | None = None
    enable_ansi_quotes: bool | None = None
    """Without effect: deprecated in DM."""

    @property
    def most_rows(self) -> int | None:
        """The chosen `batch`. DM's defaults are no choice: its examples and exports contain them, and with transactions
        of 100 rows a sync is about half as fast as without a limit."""
        return None if (self.worker_count, self.batch) == DM_WORKERS_AND_BATCH else self.batch


class ValidatorConfig(DmModel):
    """Continuous validation."""

    mode: Annotated[ValidatorMode, empty_is("none")] = ValidatorMode.NONE
    """`fast` and `full` are refused."""
    worker_count: int = 4
    validate_interval: Seconds = 10.0
    check_interval: Seconds = 5.0
    row_error_delay: Seconds = 1800.0
    meta_flush_interval: Seconds = 300.0
    batch_query_size: int = 100
    max_pending_row_size: str = "500m"
    max_pending_row_count: int = 2147483647
    """Without effect: they belong to the refused modes."""
