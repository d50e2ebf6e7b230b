"""Errors of a file: its name, line and key, and the probable spelling. All problems are reported at once."""

import textwrap
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.config.errors import ConfigError
from airflow_provider_dm.engine.config.yaml_file import load_task, parse_source, parse_task, task_of


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        parse_task(textwrap.dedent(text).lstrip("\n"))
    return list(refusal.value.problems)


INSTANCE = "mysql-instances: [{source-id: a}]\n"


def test_all_errors_of_a_file_are_in_the_order_of_its_lines() -> None:
    found = problems(
        """
        name: t
        task-mode: incrementall
        nmae: u
        mysql-instances:
          - source-id: a
            route-rules: [r1, r3]
            syncer-thread: lots
          - route-rules: []
        routes:
          r1: {schema-pattern: "a*b", target-schema: x}
          r2: {schema-pattern: "a*"}
        """
    )
    assert found == [
        (
            'task.yaml:2: "task-mode" in the task must be full, incremental, all, dump, load or load&sync, '
            'not "incrementall"; did you mean "incremental"?'
        ),
        'task.yaml:3: unknown key "nmae" in the task; did you mean "name"?',
        'task.yaml:6: "route-rules" in mysql-instances[0] names "r3", which is not in routes',
        'task.yaml:7: "syncer-thread" in mysql-instances[0] must be a whole number, not "lots"',
        'task.yaml:8: mysql-instances[1] lacks the key "source-id"',
        (
            'task.yaml:10: "schema-pattern" in routes.r1 cannot be used: * may only be the last character; '
            'use a ~ regular expression, not "a*b"'
        ),
        'task.yaml:11: routes.r2 lacks the key "target-schema"',
        'task.yaml:11: no mysql-instance names "r2" of routes: use or remove it',
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"name: t\n{INSTANCE}strict-optimistic-shard-mode: true\nshard-mode: pessimistic\n",
            'task.yaml:3: "strict-optimistic-shard-mode" needs "shard-mode" (line 4) to be optimistic',
        ),
        (
            "name: t\nmysql-instances:\n- source-id: a\n- source-id: a\n",
            'task.yaml:4: the source "a" is given twice, first in line 3',
        ),
        (
            "name: t\nmysql-instances:\n- source-id: a\n  syncer-config-name: g\n  syncer: {}\nsyncers: {g: {}}\n",
            'task.yaml:5: "syncer" and "syncer-config-name" (line 4) cannot be given together',
        ),
        (
            (
                "name: t\nmysql-instances:\n- source-id: a\n  block-allow-list: x\n  black-white-list: x\n"
                "block-allow-list: {x: {}}\n"
            ),
            'task.yaml:5: "black-white-list" and "block-allow-list" in mysql-instances[0] mean the same: keep one',
        ),
        (
            f"name: t\n{INSTANCE}target-database:\n  host: h\n  password: x\n  password-env: Y\n",
            'task.yaml:6: "password-env" and "password" (line 5) cannot be given together',
        ),
        (
            (
                "name: t\nmysql-instances:\n- source-id: a\n  route-rules: [r, r]\n"
                "routes: {r: {schema-pattern: a, target-schema: b}}\n"
            ),
            'task.yaml:4: "route-rules" in mysql-instances[0] names "r" twice',
        ),
        ("name: t\nname: u\n" + INSTANCE, 'task.yaml:2: the key "name" is given twice, first in line 1'),
        (
            f"name: t\n{INSTANCE}taget-database:\n  host: h\n",
            'task.yaml:3: unknown key "taget-database" in the task; did you mean "target-database"?',
        ),
        (f"name: t\n{INSTANCE}rout:\n", 'task.yaml:3: unknown key "rout" in the task; did you mean "routes"?'),
        (
            f"name: t\n{INSTANCE}task_mode: all\n",
            'task.yaml:3: unknown key "task_mode" in the task; did you mean "task-mode"?',
        ),
        (
            "name: t\nmysql-instances:\n- source-id: a\n  meta: {binlog-name: a.000001, zzz: 1}\n",
            (
                'task.yaml:4: unknown key "zzz" in mysql-instances[0].meta; it may have binlog-name, binlog-pos or '
                "binlog-gtid"
            ),
        ),
        (
            f"name: t\n{INSTANCE}metrics-addr: ':70000'\n",
            'task.yaml:3: "metrics-addr" in the task cannot be used: its port has to be at most 65535, not ":70000"',
        ),
    ],
)
def test_a_problem_has_its_line_and_what_it_contradicts_or_resembles(text: str, expected: str) -> None:
    assert problems(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 'task.yaml:1: the task lacks the key "name"'),
        ("- a\n- b\n", "task.yaml:1: the task must be a mapping of keys to values"),
        ("name: t\n  x: y: z\n", "task.yaml:2: not valid YAML: mapping values are not allowed here"),
        ("name: t\n\tx: y\n", r"task.yaml:2: not valid YAML: found character '\t' that cannot start any token"),
        ("name: t\nx: {y: [z}\n", "task.yaml:2: not valid YAML: expected ',' or ']', but got '}'"),
        (f"name: t\n{INSTANCE}routes: [a]\n",
         'task.yaml:3: "routes" in the task must be a mapping of keys to values, not a list'),
        (f"name: t\n{INSTANCE}case-sensitive: maybe\n",
         'task.yaml:3: "case-sensitive" in the task must be true or false, not "maybe"'),
        (f"name: t\n{INSTANCE}filters: {{f: {{events: [insrt]}}}}\n",
         "task.yaml:3: filters.f.events[0] cannot be used: there is no event 'insrt'; did you mean 'insert'?"),
        ("name: t\nmysql-instances: []\n", 'task.yaml:2: "mysql-instances" in the task needs at least one entry'),
        (f"name: t\n{INSTANCE}meta-schema: !exec rm\n", "task.yaml:3: a value that begins with ! must be quoted"),
        ("name: t\nmysql-instances: &a [*a]\n", "task.yaml:2: an alias that contains itself, or far too many of them"),
    ],
)  # fmt: skip
def test_the_problem_is_named(text: str, expected: str) -> None:
    assert expected in problems(text)


def test_an_alias_bomb_is_refused_quickly() -> None:
    levels = "\n".join(f"k{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))
    assert any("far too many" in problem for problem in problems(f"k0: &a0 [x]\n{levels}\n"))


def test_anchors_and_merge_keys_work() -> None:
    task = parse_task(
        textwrap.dedent(
            """
            name: t
            mysql-instances: [{source-id: a, route-rules: [one, two]}]
            routes:
              one: &base {schema-pattern: a, table-pattern: "t?", target-schema: x, target-table: y}
              two: {<<: *base, schema-pattern: b}
            """
        )
    )
    assert task.routes["two"].model_dump() == task.routes["one"].model_dump() | {"schema_pattern": "b"}


def test_a_value_keeps_the_text_that_the_file_shows() -> None:
    task = parse_task("name: 0123\nmysql-instances: [{source-id: 007}]\ntarget-database: {host: h, password: 1e3}\n")
    assert (task.name, task.source_ids) == ("0123", ("007",))
    assert task.target_database is not None
    assert task.target_database.secret().reveal() == "1e3"


def test_numbers_and_flags_may_be_quoted() -> None:
    task = parse_task('name: t\nmysql-instances: [{source-id: a, syncer-thread: "5"}]\ncase-sensitive: "Yes"\n')
    assert (task.subtask("a").syncer.worker_count, task.case_sensitive) == (5, True)


def test_a_file_that_cannot_be_read() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read: No such file"):
        load_task("/nowhere.yaml")
    with pytest.raises(ConfigError, match=r"'a\\x00\.yaml': cannot be read: embedded null byte"):
        load_task("a\0.yaml")
    with pytest.raises(ConfigError, match="nested too deeply"):
        parse_task("[" * 5000)


def test_a_source_gets_the_same_messages() -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_source(f"source-id: {'x' * 33}\nrelay-binlog-name: ../../etc/passwd\nflavour: mysql\n")
    assert list(refusal.value.problems) == [
        f'source.yaml:1: "source-id" in the source must not be longer than 32 characters, not "{"x" * 33}"',
        (
            'source.yaml:2: "relay-binlog-name" in the source cannot be used: it is a path and not the name of a '
            'binlog file, not "../../etc/passwd"'
        ),
        'source.yaml:3: unknown key "flavour" in the source; did you mean "flavor"?',
    ]


def test_a_dictionary_has_the_same_problems_without_lines() -> None:
    with pytest.raises(ConfigError) as refusal:
        task_of({"name": "t", "mysql-instances": [{"source-id": "a"}, {"source-id": "a"}], "sincers": {}}, "dag x")
    assert list(refusal.value.problems) == [
        'dag x: unknown key "sincers" in the task; did you mean "syncers"?',
        'dag x: the source "a" is given twice, first in mysql-instances[0].source-id',
    ]


@given(st.text(max_size=200))
def test_any_text_is_a_task_or_a_config_error(text: str) -> None:
    with suppress(ConfigError):
        parse_task(text)
