"""task.yaml: one migration job, its sources, its target and its rules. Defaults are DM's.

A `TaskConfig` has the content of the file. A `SubtaskConfig` is the work of one of its sources, with every name
resolved. It can only be created if this release supports all settings; otherwise NotSupportedYet is raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import AliasChoices, Field, field_validator

from airflow_provider_dm.engine.config.base import DmModel, Entries, Lowered, Names, empty_is
from airflow_provider_dm.engine.config.database_config import TargetDatabase
from airflow_provider_dm.engine.config.dump_args import parse_extra_args
from airflow_provider_dm.engine.config.listening import listen_address
from airflow_provider_dm.engine.config.rule_models import (
    BlockAllowConfig,
    ExpressionFilter,
    FilterRule,
    OnlineDdlConfig,
    RouteRule,
    ToolTableRules,
)
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.start_meta import StartMeta, checked_time
from airflow_provider_dm.engine.config.units import (
    LoaderConfig,
    MydumperConfig,
    OnDuplicate,
    SyncerConfig,
    ValidatorConfig,
)
from airflow_provider_dm.engine.errors import InvalidInput, NotSupportedYet, raise_first
from airflow_provider_dm.engine.mysql.location import Location

DEFAULT_META_SCHEMA: Final = "dm_meta"
_RUNNABLE_MODES: Final = frozenset({"full", "incremental", "all"})
_LOGICAL_MODES: Final = frozenset({"logical", "sql", "loader"})


def unknown_source(source: str, task: str, known: tuple[str, ...]) -> InvalidInput:
    return InvalidInput(
        f"the task {task!r} has no source {source!r}; its mysql-instances are {', '.join(known)}.",
        "Name one of these, or add the source to mysql-instances.",
    )


def source_files_differ(task: str, found: str) -> InvalidInput:
    return InvalidInput(f"task {task}: {found}.", "Give one source.yaml for each of the task's mysql-instances.")


class TaskMode(StrEnum):
    FULL = "full"
    INCREMENTAL = "incremental"
    ALL = "all"
    DUMP = "dump"
    LOAD = "load"
    LOAD_AND_SYNC = "load&sync"


class ShardMode(StrEnum):
    NONE = ""
    PESSIMISTIC = "pessimistic"
    OPTIMISTIC = "optimistic"


class Experimental(DmModel):
    async_checkpoint_flush: bool = False
    """Without effect: each target transaction has its checkpoint. The precheck warns of `true`."""


class MariadbSchemas(DmModel):
    """DM's translation of MariaDB's CREATE TABLE statements."""

    mode: Annotated[Literal["auto", "on", "off"], empty_is("auto"), Lowered] = "auto"
    """`on` is refused; `auto` and `off` mean the same."""
    strict_mode: bool = True
    enabled_rules: Names = ()
    disabled_rules: Names = ()
    """Without effect: they belong to `mode: on`."""


class TidbConfig(DmModel):
    """Tables that the load creates in TiDB; and the import by Lightning in DM 5.3, which `loaders` has replaced."""

    auto_random: int = Field(default=0, ge=0, le=15)
    """Extension: a BIGINT AUTO_INCREMENT that is the whole primary key becomes AUTO_RANDOM with this number of bits."""
    pre_split_regions: int = Field(default=0, ge=0, le=15)
    """Extension: PRE_SPLIT_REGIONS of these tables, in bits."""
    backend: Literal["", "tidb", "local"] = ""
    """`tidb` writes rows by SQL, as this product always does."""
    status_port: int | None = None
    pd_addr: str = ""
    """Without effect: they belong to the physical import."""


class MysqlInstance(DmModel):
    """One source of the task, and the names of its rules."""

    source_id: str = Field(min_length=1, max_length=32)
    """The source: the id of a source.yaml, or of an Airflow connection."""
    meta: StartMeta | None = None
    """The start of task-mode incremental without a checkpoint."""
    route_rules: Names = ()
    """Names of entries of `routes`."""
    filter_rules: Names = ()
    """Names of entries of `filters`."""
    expression_filters: Names = ()
    """Names of entries of `expression-filter`."""
    column_mapping_rules: Names = ()
    """Removed from DM, and refused unless empty."""
    block_allow_list: str = Field(default="", validation_alias=AliasChoices("block-allow-list", "black-white-list"))
    """The entry of `block-allow-list` that selects tables; empty: all tables."""
    mydumper_config_name: str = ""
    """The entry of `mydumpers`."""
    mydumper: MydumperConfig | None = None
    """The same content in place; it overrides the named entry."""
    mydumper_thread: int | None = Field(default=None, ge=0)
    """Overrides its `threads`."""
    loader_config_name: str = ""
    """The entry of `loaders`."""
    loader: LoaderConfig | None = None
    """The same content in place; it overrides the named entry."""
    loader_thread: int | None = Field(default=None, ge=0)
    """Overrides its `pool-size`."""
    syncer_config_name: str = ""
    """The entry of `syncers`."""
    syncer: SyncerConfig | None = None
    """The same content in place; it overrides the named entry."""
    syncer_thread: int | None = Field(default=None, ge=0)
    """Overrides its `worker-count`."""
    validator_config_name: str = ""
    """The entry of `validators`."""

    def without_secrets(self) -> Self:
        return self.model_copy(update={"loader": self.loader.without_secrets() if self.loader else None})


@dataclass(frozen=True)
class SubtaskConfig:
    """The work of one source: names resolved, overrides applied, all of it supported."""

    task: str
    source_id: str
    meta_schema: str
    mode: TaskMode
    shard_mode: ShardMode
    case_sensitive: bool
    block_allow: BlockAllowConfig
    routes: tuple[RouteRule, ...]
    syncer: SyncerConfig
    loader: LoaderConfig
    mydumper: MydumperConfig
    start: Location | None
    online_ddl: OnlineDdlConfig | None = None
    """None: tables with the names of an online DDL tool's tables are ordinary tables."""
    filters: tuple[FilterRule, ...] = ()
    expression_filters: tuple[ExpressionFilter, ...] = ()
    strict_collations: bool = False
    """`collation_compatible: strict`: a collation that the target's family does not have is an error."""
    timezone: str = ""
    """The time zone in which expression filters read a TIMESTAMP as a local time."""
    tidb: TidbConfig = field(default_factory=TidbConfig)

    def with_source(self, source: SourceConfig) -> Self:
        """Return a copy with the rules of source.yaml: its binlog event filters follow the task's, and names are
        case-sensitive if either file demands it, as in DM."""
        return replace(
            self, filters=(*self.filters, *source.filters), case_sensitive=self.case_sensitive or source.case_sensitive
        )

    @property
    def overwrites(self) -> bool:
        """Return True if the user has chosen that rows with the same key overwrite each other, of any source table."""
        return self.loader.on_duplicate_logical is OnDuplicate.REPLACE

    @property
    def syncs_by_owner(self) -> bool:
        """Return True if the sync distinguishes the owners of a merged table's rows, also with `safe-mode: true`, by
        which rows overwrite each other in another way (sync/safe_mode/last_wins.py)."""
        return self.syncer.safe_mode or not self.overwrites


class TaskConfig(DmModel):
    """A migration job. Without `target-database` the target is an Airflow connection."""

    name: str = Field(min_length=1, max_length=128)
    """Name of the task. Its progress is kept under this name: another name is another task."""
    task_mode: TaskMode = TaskMode.ALL
    """`full`: copy tables. `incremental`: apply the binlog. `all`: both. The others are refused."""
    shard_mode: ShardMode = ShardMode.NONE
    """`pessimistic`: DDL on a merged table is executed once, after all its shards. `optimistic` is refused."""
    is_sharding: bool = False
    """Deprecated: true means shard-mode pessimistic."""
    strict_optimistic_shard_mode: bool = False
    """Without effect: it belongs to `shard-mode: optimistic`."""
    meta_schema: Annotated[str, empty_is(DEFAULT_META_SCHEMA)] = Field(default=DEFAULT_META_SCHEMA, max_length=64)
    """Schema in the target for the tables of progress."""
    case_sensitive: bool = False
    """True: the patterns of rules distinguish upper and lower case."""
    timezone: str = ""
    """Time zone in which expression filters read a TIMESTAMP; no stored value depends on it, as sessions run in UTC."""
    collation_compatible: Annotated[Literal["loose", "strict"], empty_is("loose")] = Field(
        default="loose", validation_alias="collation_compatible", serialization_alias="collation_compatible"
    )
    """`strict`: a collation that the target lacks is an error. `loose`: it is replaced by the nearest one."""
    online_ddl: bool = True
    """True: of gh-ost and pt-online-schema-change only the resulting change of the real table is applied."""
    online_ddl_scheme: Literal["", "gh-ost", "pt"] = ""
    """Deprecated: either tool means online-ddl true, for both."""
    shadow_table_rules: ToolTableRules = ()
    """Regular expressions for names of ghost tables; the group is the real table. Given rules replace DM's."""
    trash_table_rules: ToolTableRules = ()
    """The same for the tools' other tables."""
    clean_dump_file: bool = True
    """Without effect: rows are not dumped to files. The precheck warns of `false`."""
    ignore_checking_items: Names = ()
    """Checks that the precheck leaves out, by DM's names or by those that it shows."""
    start_time: str = ""
    """Extension, like `start-task --start-time`: an incremental task without a checkpoint begins with the first
    transaction of that time, `YYYY-MM-DD hh:mm:ss` in the source's time zone, whatever `meta` contains."""
    metrics_addr: str = Field(default="", pattern=r"^([^\s:]*|\[[0-9a-fA-F:]+\]):\d{1,5}$|^$")
    """Extension: HOST:PORT at which the task's app serves Prometheus metrics; without HOST on the loopback interface;
    empty: not at all."""
    experimental: Experimental = Experimental()
    """Experimental keys of DM."""
    mariadb2tidb: MariadbSchemas = MariadbSchemas()
    """See below."""
    tidb: TidbConfig = TidbConfig()
    """Created tables in TiDB, and old settings of the import."""
    target_database: TargetDatabase | None = None
    """The target server; without it, the target is an Airflow connection."""
    mysql_instances: tuple[MysqlInstance, ...] = Field(min_length=1)
    """The sources of the task."""
    routes: dict[str, RouteRule] = Field(default_factory=dict)
    """Rules that give source tables other names in the target."""
    filters: dict[str, FilterRule] = Field(default_factory=dict)
    """Rules that leave out DDL and changes of rows by kind."""
    expression_filters: dict[str, ExpressionFilter] = Field(
        default_factory=dict, validation_alias=AliasChoices("expression-filter", "expression-filters")
    )
    """Rules that leave out changes of rows by their values."""
    block_allow_list: Annotated[dict[str, BlockAllowConfig], Entries] = Field(
        default_factory=dict, validation_alias=AliasChoices("block-allow-list", "black-white-list")
    )
    """Lists of tables that are migrated or left out."""
    mydumpers: Annotated[dict[str, MydumperConfig], Entries] = Field(default_factory=dict)
    """Settings for reading a full migration."""
    loaders: Annotated[dict[str, LoaderConfig], Entries] = Field(default_factory=dict)
    """Settings for writing a full migration."""
    syncers: Annotated[dict[str, SyncerConfig], Entries] = Field(default_factory=dict)
    """Settings of the incremental sync."""
    validators: Annotated[dict[str, ValidatorConfig], Entries] = Field(default_factory=dict)
    """Settings of continuous validation, which is refused."""
    column_mappings: dict[str, object] = Field(default_factory=dict, exclude=True, repr=False)
    """Removed from DM, and refused unless empty."""
    description: str = ""
    """Without effect."""
    remove_meta: bool = False
    """Without effect: use `dmctl start-task --remove-meta`. The precheck warns of `true`."""
    ansi_quotes: bool | None = None
    enable_heartbeat: bool | None = None
    heartbeat_update_interval: int | None = None
    heartbeat_report_interval: int | None = None
    """Without effect: deprecated in DM."""

    @field_validator("metrics_addr")
    @classmethod
    def _an_address(cls, given: str) -> str:
        if given:
            listen_address(given)
        return given

    @field_validator("start_time", mode="before")
    @classmethod
    def _a_time(cls, given: object) -> str:
        return checked_time(given.strftime("%Y-%m-%d %H:%M:%S") if isinstance(given, datetime) else str(given))

    @property
    def source_ids(self) -> tuple[str, ...]:
        return tuple(instance.source_id for instance in self.mysql_instances)

    @property
    def sharding(self) -> ShardMode:
        """`shard-mode`, or the deprecated `is-sharding`, which counts only if it is `true` and there is no mode."""
        return ShardMode.PESSIMISTIC if self.is_sharding and not self.shard_mode else self.shard_mode

    @property
    def online(self) -> OnlineDdlConfig | None:
        """`online-ddl` and its rules, or the deprecated `online-ddl-scheme`; None: disabled."""
        if not (self.online_ddl or self.online_ddl_scheme):
            return None
        dm = OnlineDdlConfig()
        return OnlineDdlConfig(self.shadow_table_rules or dm.shadow, self.trash_table_rules or dm.trash)

    def instance(self, source_id: str) -> MysqlInstance:
        """Return the mysql-instance of a source. Raises InvalidInput."""
        for instance in self.mysql_instances:
            if instance.source_id == source_id:
                return instance
        raise unknown_source(source_id, self.name, self.source_ids)

    def beginning_at(self, places: Mapping[str, Location]) -> Self:
        """Return a copy whose sources begin at these locations."""
        instances = tuple(
            one.model_copy(update={"meta": StartMeta.at(places[one.source_id])}) if one.source_id in places else one
            for one in self.mysql_instances
        )
        return self.model_copy(update={"mysql_instances": instances})

    def unsupported(self) -> tuple[NotSupportedYet, ...]:
        """Return the settings that this release does not support and whose absence would change data.

        When a setting becomes supported, it is deleted here and in docs/limits.md.
        """
        instances = (gap for instance in self.mysql_instances for gap in self._gaps_of(instance))
        return (*self._gaps(), *instances)

    def _gaps(self) -> Iterator[NotSupportedYet]:
        """Yield the unsupported settings of the whole task."""
        where = f"task {self.name!r}"
        if self.task_mode not in _RUNNABLE_MODES:
            yield NotSupportedYet(f"task-mode {self.task_mode.value}", where, "Use full, incremental or all.")
        if self.sharding == "optimistic":
            remedy = "Use pessimistic, or leave it out if no DDL is expected."
            yield NotSupportedYet("shard-mode optimistic", where, remedy)
        if self.mariadb2tidb.mode == "on":
            yield NotSupportedYet("mariadb2tidb", where, "Create the target tables first and set its mode to off.")
        if self.tidb.backend == "local":
            yield NotSupportedYet("tidb.backend local", where, "Use tidb, which is import-mode: logical.")
        if self.target_database:
            yield from self.target_database.unsupported("target-database")

    def _gaps_of(self, instance: MysqlInstance) -> Iterator[NotSupportedYet]:
        """Yield the unsupported settings of one source of the task, with the rules and units that it names."""
        where = f"source {instance.source_id!r} of task {self.name!r}"
        validator = self.validators.get(instance.validator_config_name)
        if validator and validator.mode != "none":
            yield NotSupportedYet("continuous validation", where, "Set its mode to none; run verify afterwards.")
        mydumper, loader = self.mydumper_of(instance), self.loader_of(instance)
        if mydumper.where:
            yield NotSupportedYet("mydumpers.where", where, "Copy whole tables.")
        if flags := parse_extra_args(mydumper.extra_args).narrowing(self.lists_of(instance).do_dbs):
            yield NotSupportedYet(f"extra-args {' '.join(flags)}", where, "Choose tables by block-allow-list.")
        if loader.import_mode not in _LOGICAL_MODES:
            yield NotSupportedYet(f"import-mode {loader.import_mode.value}", where, "Use import-mode: logical.")

    def require_supported(self) -> None:
        """Raise the first of `unsupported`, if there is one."""
        raise_first(self.unsupported())

    def without_secrets(self) -> Self:
        """Return a copy without passwords, as a JobSpec carries it."""
        target = self.target_database.without_secrets() if self.target_database else None
        loaders = {name: loader.without_secrets() for name, loader in self.loaders.items()}
        instances = tuple(instance.without_secrets() for instance in self.mysql_instances)
        return self.model_copy(update={"target_database": target, "loaders": loaders, "mysql_instances": instances})

    def subtask(self, source_id: str) -> SubtaskConfig:
        """Return the work of a source. Raises InvalidInput, NotSupportedYet, InvalidLocation (an invalid `meta`)."""
        instance = self.instance(source_id)
        raise_first((*self._gaps(), *self._gaps_of(instance)))
        return SubtaskConfig(
            task=self.name,
            source_id=source_id,
            meta_schema=self.meta_schema,
            mode=self.task_mode,
            shard_mode=self.sharding,
            case_sensitive=self.case_sensitive,
            block_allow=self.lists_of(instance),
            routes=tuple(self.routes[name] for name in instance.route_rules),
            syncer=self.syncer_of(instance),
            loader=self.loader_of(instance),
            mydumper=self.mydumper_of(instance),
            # As in DM, `meta` has no effect on a task that begins with a copy.
            start=instance.meta.location() if instance.meta and self.task_mode == TaskMode.INCREMENTAL else None,
            online_ddl=self.online,
            filters=tuple(self.filters[name] for name in instance.filter_rules),
            expression_filters=tuple(self.expression_filters[name] for name in instance.expression_filters),
            strict_collations=self.collation_compatible == "strict",
            timezone=self.timezone,
            tidb=self.tidb,
        )

    def lists_of(self, instance: MysqlInstance) -> BlockAllowConfig:
        name = instance.block_allow_list
        return self.block_allow_list[name] if name else BlockAllowConfig()

    # As in DM, an inline configuration overrides a named one, `…-thread` overrides both, and `extra-args` override all.

    def syncer_of(self, instance: MysqlInstance) -> SyncerConfig:
        chosen = instance.syncer or self.syncers.get(instance.syncer_config_name, SyncerConfig())
        return chosen.model_copy(update={"worker_count": instance.syncer_thread or chosen.worker_count})

    def loader_of(self, instance: MysqlInstance) -> LoaderConfig:
        chosen = instance.loader or self.loaders.get(instance.loader_config_name, LoaderConfig())
        return chosen.model_copy(update={"pool_size": instance.loader_thread or chosen.pool_size})

    def mydumper_of(self, instance: MysqlInstance) -> MydumperConfig:
        chosen = instance.mydumper or self.mydumpers.get(instance.mydumper_config_name, MydumperConfig())
        extra = parse_extra_args(chosen.extra_args)
        threads = extra.threads or instance.mydumper_thread or chosen.threads
        consistency = extra.consistency or chosen.consistency
        update = {"threads": threads, "rows": extra.rows or chosen.rows, "consistency": consistency}
        return chosen.model_copy(update=update)
