"""The meaning of a task's keys for each of its sources."""

from datetime import UTC, datetime

import pytest

from airflow_provider_dm.engine.config.dump_args import parse_extra_args
from airflow_provider_dm.engine.config.errors import ConfigError
from airflow_provider_dm.engine.config.job import EndpointSpec, JobSpec, SecretRef, SourceSpec
from airflow_provider_dm.engine.config.rule_models import OnlineDdlConfig
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import ShardMode, TaskConfig
from airflow_provider_dm.engine.config.units import Apply, ImportMode, OnDuplicate
from airflow_provider_dm.engine.config.yaml_file import source_of, task_of
from airflow_provider_dm.engine.errors import InvalidInput, NotSupportedYet
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules


def a_task(instance: dict[str, object] | None = None, **sections: object) -> TaskConfig:
    keys = {key.replace("_", "-"): value for key, value in sections.items()}
    return task_of({"name": "t", "mysql-instances": [{"source-id": "a"} | (instance or {})]} | keys)


def test_defaults_are_dms() -> None:
    subtask = a_task().subtask("a")
    assert (subtask.meta_schema, subtask.case_sensitive, subtask.start) == ("dm_meta", False, None)
    assert subtask.syncer.checkpoint_flush_interval == 30
    syncer = subtask.syncer
    assert (syncer.compact, syncer.multiple_rows, syncer.apply) == (True, True, Apply.CONCURRENT)
    assert (syncer.worker_count, syncer.batch, syncer.queue_size) == (None, None, 1024)
    keys = {"name": "t", "mysql-instances": [{"source-id": "a"}], "collation_compatible": "strict"}
    strict = task_of(keys).subtask("a")
    assert (strict.strict_collations, subtask.strict_collations) == (True, False)
    with pytest.raises(InvalidInput, match="has no source 'b'"):
        a_task().subtask("b")
    assert (subtask.loader.pool_size, subtask.loader.on_duplicate_logical) == (16, None)
    assert (subtask.mydumper.threads, subtask.mydumper.rows) == (4, None)
    source = SourceConfig(source_id="s")
    assert (source.purge.interval, source.purge.expires, source.purge.remain_space) == (3600, 0, 15)
    assert (source.enable_relay, source.flavor, source.checker.backoff_max) == (False, "", 300.0)


def test_a_syncer_may_disable_compaction_or_apply_transactions() -> None:
    keys = {"compact": False, "multiple-rows": False, "apply": "Transactional", "queue-size": 0}
    syncer = a_task({"syncer": keys}).subtask("a").syncer
    assert (syncer.compact, syncer.multiple_rows, syncer.apply) == (False, False, Apply.TRANSACTIONAL)
    assert syncer.queue_size == 1024  # as DM exports it


def test_threads_of_an_instance_win_over_the_named_unit() -> None:
    task = a_task(
        {"syncer-config-name": "g", "syncer-thread": 3, "loader-thread": 5, "mydumper-thread": 7},
        syncers={"g": {"worker-count": 9, "batch": 11}},
    )
    subtask = task.subtask("a")
    assert (subtask.syncer.worker_count, subtask.syncer.batch) == (3, 11)
    assert (subtask.loader.pool_size, subtask.mydumper.threads) == (5, 7)


@pytest.mark.parametrize(
    ("meta", "start"),
    [
        ({"binlog-name": "mysql-bin.000003", "binlog-pos": 777}, Location("mysql-bin.000003", 777)),
        ({"binlog-name": "mysql-bin.000003"}, Location("mysql-bin.000003", 4)),
        ({"binlog-name": "b.000003", "binlog-pos": 0, "binlog-gtid": "x:1-7"}, Location("b.000003", 4, "x:1-7")),
        ({"binlog-name": "mysql-bin|000002.000003", "binlog-pos": 9}, Location("mysql-bin.000003", 9, suffix=2)),
    ],
)
def test_an_incremental_task_starts_at_meta(meta: dict[str, object], start: Location) -> None:
    assert a_task({"meta": meta}, task_mode="incremental").subtask("a").start == start
    assert a_task({"meta": meta}, task_mode="all").subtask("a").start is None


@pytest.mark.parametrize(
    "given", ["2026-11-22 19:50:00", "2026-11-22T19:50:00", datetime(2026, 11, 22, 19, 50, tzinfo=UTC)]
)
def test_a_time_to_begin_at(given: object) -> None:
    assert a_task(start_time=given).start_time == "2026-11-22 19:50:00"


@pytest.mark.parametrize("given", ["yesterday", "2026-02-31 00:00:00", "2026-11-22"])
def test_an_invalid_start_time_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="not a time"):
        a_task(start_time=given)


def test_a_location_found_by_gtid_set_is_the_start_of_the_task() -> None:
    place = Location("b.000003", 99, "0-1-7")
    found = a_task({"meta": {"binlog-gtid": "0-1-7"}}, task_mode="incremental").beginning_at({"a": place})
    assert found.subtask("a").start == place


def test_old_names_of_options_are_accepted() -> None:
    task = a_task({"loader": {"import-mode": "SQL", "on-duplicate": "REPLACE"}}, is_sharding=True)
    assert task.sharding is ShardMode.PESSIMISTIC
    assert task.subtask("a").loader.on_duplicate_logical is OnDuplicate.REPLACE
    assert task.subtask("a").loader.import_mode is ImportMode.SQL


@pytest.mark.parametrize(
    ("instance", "sections", "feature"),
    [
        ({}, {"task_mode": "dump"}, "task-mode dump"),
        ({}, {"task_mode": "load&sync"}, "task-mode load&sync"),
        ({}, {"shard_mode": "optimistic"}, "shard-mode optimistic"),
        ({}, {"mariadb2tidb": {"mode": "on"}}, "mariadb2tidb"),
        ({}, {"target_database": {"host": "h", "security": {"cert-allowed-cn": "x"}}}, "cert-allowed-cn"),
        ({"loader": {"import-mode": "physical"}}, {}, "import-mode physical"),
        ({"mydumper": {"where": "id > 3"}}, {}, "mydumpers.where"),
        ({"mydumper": {"extra-args": "-B test -T t1 -t 8"}}, {}, "extra-args -B -T"),
        ({"mydumper": {"extra-args": "--where='a=1'"}}, {}, "extra-args --where"),
        ({"mydumper": {"extra-args": "--consistency=most"}}, {}, "--consistency most"),
        ({"mydumper": {"extra-args": "-B a"}, "block-allow-list": "l"}, {"block_allow_list": {"l": {"do-dbs": ["a*"]}}},
         "extra-args -B"),
        ({}, {"tidb": {"backend": "local"}}, "tidb.backend local"),
    ],
)  # fmt: skip
def test_options_that_would_omit_rows_are_refused(
    instance: dict[str, object], sections: dict[str, object], feature: str
) -> None:
    task = a_task(instance, **sections)
    with pytest.raises(NotSupportedYet, match=feature):
        task.subtask("a")
    with pytest.raises(NotSupportedYet, match=feature):
        task.require_supported()


@pytest.mark.parametrize(
    ("extra_args", "threads", "rows"),
    [
        ("--consistency none -t 8 --rows=1000", 8, 1000),
        ("-t8 -r=9 --no-locks -W", 8, 9),
        ("--threads=0 -s 100 --no-views=true", 5, 7),
        ("-B shop,other --filesize 64MB", 5, 7),
    ],
)
def test_harmless_arguments_of_the_dumper_have_dms_meaning(extra_args: str, threads: int, rows: int) -> None:
    task = a_task(
        {"mydumper": {"extra-args": extra_args, "rows": 7}, "mydumper-thread": 5, "block-allow-list": "l"},
        block_allow_list={"l": {"do-dbs": ["shop"]}},
    )
    mydumper = task.subtask("a").mydumper
    assert (mydumper.threads, mydumper.rows) == (threads, rows)


@pytest.mark.parametrize(
    ("mydumper", "consistency"),
    [
        ({}, "auto"),
        ({"consistency": "FLUSH"}, "flush"),
        ({"consistency": "flush", "extra-args": "--consistency=Lock -t 8"}, "lock"),
        ({"extra-args": "--consistency snapshot"}, "snapshot"),
        ({"extra-args": "-t 8 --no-locks"}, "none"),
    ],
)
def test_the_lock_of_a_copy_is_chosen_as_in_dm(mydumper: dict[str, object], consistency: str) -> None:
    assert a_task({"mydumper": mydumper}).subtask("a").mydumper.consistency == consistency


@pytest.mark.parametrize(
    ("extra_args", "selecting"),
    [
        ("-T a.b -f '*.*'", "-T -f"),
        ("-B a", "-B"),
        ("--snapshot 4711", "--snapshot"),
        ("--no-views=false", "--no-views false"),
        ("--regex 'x", "--regex 'x"),
        ("shop", "shop"),
        ("-t", "--threads"),
    ],
)
def test_arguments_that_choose_what_is_read_are_named(extra_args: str, selecting: str) -> None:
    assert " ".join(parse_extra_args(extra_args).narrowing(())) == selecting


def test_the_dumpers_schemas_must_include_all_schemas_of_the_allow_list() -> None:
    parsed = parse_extra_args("-B a,b,c*")
    assert [bool(parsed.narrowing(do_dbs)) for do_dbs in (["a"], ["b", "a"], ["a", "d"], ["c*"], ["~c"], [])] == [
        *(False, False),
        *(True, True, True, True),
    ]


def test_entries_that_only_have_a_name_are_of_defaults() -> None:
    instance: dict[str, object] = {f"{unit}-config-name": "u" for unit in ("mydumper", "loader", "syncer", "validator")}
    sections: dict[str, object] = {f"{unit}s": {"u": None} for unit in ("mydumper", "loader", "syncer", "validator")}
    task = a_task(instance | {"block-allow-list": "l"}, block_allow_list={"l": None}, **sections)
    given, plain = (one.subtask("a") for one in (task, a_task()))
    assert (given.mydumper, given.loader, given.syncer, given.block_allow) == (
        *(plain.mydumper, plain.loader, plain.syncer),
        plain.block_allow,
    )


def test_checkpoints_of_older_releases_of_dm() -> None:
    task = task_of(
        {
            "name": "t",
            "meta-schema": "",
            "collation_compatible": "",
            "mariadb2tidb": {"mode": "AUTO"},
            "mysql-instances": [{"source-id": "a", "filter-rules": ["f"], "loader-config-name": "l"}],
            "tidb": {"backend": "tidb"},
            "loaders": {"l": {"sorting-dir": "./s", "disk-quota": 0, "checksum": "required"}},
            "filters": {
                "f": {
                    "schema-pattern": "a",
                    "events": ["modify constaints", "Truncate", "drop schema"],
                    "action": "error",
                    "description": "d",
                }
            },
            "description": "a task",
        }
    )
    subtask = task.subtask("a")
    assert (task.meta_schema, task.collation_compatible, task.mariadb2tidb.mode) == ("dm_meta", "loose", "auto")
    assert (subtask.loader.sorting_dir_physical, subtask.loader.checksum_physical) == ("./s", "required")
    assert subtask.filters[0].events == ("modify constraint", "truncate table", "drop database")


@pytest.mark.parametrize("old", [True, False])
def test_shard_mode_takes_precedence_over_the_old_key(old: bool) -> None:
    assert a_task(is_sharding=old, shard_mode="pessimistic").sharding == "pessimistic"


def test_online_ddl_is_on_by_dms_rules() -> None:
    dm = OnlineDdlConfig((r"^_(.+)_(?:new|gho)$",), (r"^_(.+)_(?:ghc|del|old)$",))

    assert a_task().subtask("a").online_ddl == dm
    assert a_task(online_ddl=True, shadow_table_rules=[], trash_table_rules=None).subtask("a").online_ddl == dm
    assert a_task(online_ddl=False).subtask("a").online_ddl is None
    assert a_task(online_ddl=False, online_ddl_scheme="pt").subtask("a").online_ddl == dm


def test_rules_for_tables_of_online_ddl_replace_dms() -> None:
    task = a_task(shadow_table_rules=["^_(.+)_n$", "^(?:x)(.+)$"], trash_table_rules="^_(.+)_o$")

    assert task.subtask("a").online_ddl == OnlineDdlConfig(("^_(.+)_n$", "^(?:x)(.+)$"), ("^_(.+)_o$",))


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("^_(.+_new$", "it is not a regular expression"),
        ("^_.+_new$", "it has 0 groups in parentheses"),
        ("^_(.+)_(new|gho)$", "it has 2 groups in parentheses"),
        ("^_([[:alpha:]]+)_new$", "[a-z]"),
        ("", "must not be empty"),
    ],
)
@pytest.mark.parametrize("key", ["shadow_table_rules", "trash_table_rules"])
def test_an_online_ddl_rule_must_mark_the_name_of_the_real_table(key: str, rule: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        a_task(None, **{key: [rule]})

    assert why in str(refused.value)
    assert key.replace("_", "-") in str(refused.value)


@pytest.mark.parametrize(("of_task", "of_source"), [(False, False), (True, False), (False, True), (True, True)])
def test_names_are_case_sensitive_if_task_or_source_is(of_task: bool, of_source: bool) -> None:
    task = a_task({"block-allow-list": "l"}, case_sensitive=of_task, block_allow_list={"l": {"do-dbs": ["Shop"]}})
    rule = {"schema-pattern": "s", "events": ["delete"], "action": "Ignore"}
    source = source_of({"source-id": "a", "case-sensitive": of_source, "filters": [rule]})
    endpoint = EndpointSpec(name="a", host="h", port=1, user="u")
    spec = JobSpec(
        run_id="r",
        app="incremental_sync",
        task=task,
        sources=(SourceSpec(config=source, endpoint=endpoint, relay_dir="/r"),),
        target=endpoint,
        meta_url=SecretRef(env="DM_META"),
        holder=Holder(identity="i", attempt="1", host="h"),
    )
    subtask = spec.subtask("a")

    assert SubtaskRules.of(subtask).block_allow.allows(TableName("Shop", "t"))
    assert SubtaskRules.of(subtask).block_allow.allows(TableName("shop", "t")) is not (of_task or of_source)
    assert subtask.filters == source.filters
