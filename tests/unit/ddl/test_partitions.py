"""Partitions of the same rows in other words, and of other rows in almost the same words."""

import pytest

from airflow_provider_dm.engine.ddl.partitions import differ, with_changed_partitions
from airflow_provider_dm.engine.ddl.statements import (
    DropPartitions,
    PartitionToTable,
    Repartition,
    Spec,
    TableToPartition,
)
from airflow_provider_dm.engine.mysql.identifiers import TableName

FEWER = "RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p2 VALUES LESS THAN (30))"
TENS = FEWER.replace(", ", ", PARTITION p1 VALUES LESS THAN (20), ")
MORE = Repartition("ADD PARTITION (PARTITION p3 VALUES LESS THAN (40))")


def partitions(clause: str, *changes: Spec) -> str:
    clause = f"PARTITION BY {clause}"
    for change in changes:
        clause = with_changed_partitions(clause, change)
    return clause


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("HASH (MOD(a, 4))", "HASH (`a` % 4)"),
        ("HASH (YEARWEEK(d))", "HASH (yearweek(`d`,0))"),
        ("KEY ALGORITHM=2 (a) PARTITIONS 3", "KEY (a)\nPARTITIONS 3"),
        ('RANGE ("a") (PARTITION "p0" VALUES LESS THAN (1))', "RANGE (`a`) (PARTITION `p0` VALUES LESS THAN (1))"),
        (
            'RANGE COLUMNS (d) (PARTITION p VALUES LESS THAN ("20200101"))',
            "RANGE  COLUMNS(`d`)\n(PARTITION p VALUES LESS THAN ('2020-01-01'))",
        ),
        (
            r"LIST COLUMNS (v) (PARTITION p VALUES IN ('it\'s', 'b'))",
            "LIST COLUMNS (v) (PARTITION p VALUES IN ('b', 'it''s'))",
        ),
    ],
)
def test_the_same_rows_in_other_words(here: str, there: str) -> None:
    assert not differ(partitions(here), partitions(there))


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("RANGE (a DIV 10) (PARTITION p VALUES LESS THAN (1))", "RANGE (a DIV 100) (PARTITION p VALUES LESS THAN (1))"),
        ("HASH (a - b)", "HASH (a + b)"),
        (
            "RANGE COLUMNS (a, b) (PARTITION p VALUES LESS THAN (1, 2))",
            "RANGE COLUMNS (b, a) (PARTITION p VALUES LESS THAN (1, 2))",
        ),
        ("LIST (a) (PARTITION p VALUES IN (-1, 2))", "LIST (a) (PARTITION p VALUES IN (1, -2))"),
        (
            "LIST COLUMNS (a, b) (PARTITION p VALUES IN ((1, 2), (3, 4)))",
            "LIST COLUMNS (a, b) (PARTITION p VALUES IN ((1, 4), (3, 2)))",
        ),
    ],
)
def test_other_rows_in_almost_the_same_words(here: str, there: str) -> None:
    assert differ(partitions(here), partitions(there))


MADE = TableToPartition(TableName("shop", "t"), "PARTITION p3 VALUES LESS THAN (40)")
ONE_MORE = TENS[:-1] + ", PARTITION p3 VALUES LESS THAN (40))"


@pytest.mark.parametrize("change", [MORE, MADE])
def test_what_has_not_changed_is_compared_after_a_change(change: Spec) -> None:
    assert not differ(partitions(TENS, change), partitions(ONE_MORE))
    assert differ(partitions(TENS, change), partitions(FEWER[:-1] + ", PARTITION p3 VALUES LESS THAN (40))"))


@pytest.mark.parametrize("change", [DropPartitions(("P1",)), PartitionToTable("p1", TableName("shop", "t"))])
def test_a_partition_that_is_gone_is_missed_in_neither(change: Spec) -> None:
    assert not differ(partitions(TENS, change), partitions(FEWER))


def test_partitions_by_hash_whose_number_has_changed_are_not_known() -> None:
    assert differ(
        partitions("HASH (a) PARTITIONS 4", Repartition("ADD PARTITION PARTITIONS 2")),
        partitions("HASH (a) PARTITIONS 8"),
    )


def test_names_are_noted_once() -> None:
    dropped = DropPartitions(("two words",))
    assert partitions("KEY ()", dropped, dropped) == partitions("KEY ()", dropped)
