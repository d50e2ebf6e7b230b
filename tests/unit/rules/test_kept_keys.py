"""Rows that are distinct at the source stay distinct in the target, wherever they are written by REPLACE."""

from dataclasses import replace

import pytest

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.errors import TargetKeyNotKept
from airflow_provider_dm.engine.rules.kept_keys import check_keys_kept
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.model import Column, Index, Table

ID, U = Index("PRIMARY", ("id",), prefixes=(None,)), Index("u", ("u",), prefixes=(None,))


def table(name: str, collation: str, *keys: Index) -> Table:
    number = Column("id", 0, "int", "int", False)
    text = Column("u", 1, "varchar", "varchar(9)", False, charset=collation.partition("_")[0], collation=collation)
    return Table(TableName("shop", name), (number, text), (ID, *keys))


def kept(source: Table, target: Table) -> bool:
    try:
        check_keys_kept(TableMapping(source, target))
    except TargetKeyNotKept as error:
        return error.key != "u"
    return True


@pytest.mark.parametrize(
    ("ours", "theirs", "so"),
    [
        ("utf8mb4_general_ci", "utf8mb4_general_ci", True),
        ("utf8mb3_general_ci", "utf8mb4_general_ci", True),
        ("latin1_swedish_ci", "utf8mb4_general_ci", False),  # it takes \xe5 for a
        ("utf8mb4_bin", "utf8mb4_general_ci", False),
        ("utf8mb4_unicode_ci", "utf8mb4_general_ci", False),  # it takes \xdf for s
        ("utf8mb4_general_ci", "utf8mb4_bin", True),
        ("latin1_swedish_ci", "utf8mb4_bin", True),
        ("utf8mb4_0900_ai_ci", "utf8mb4_bin", False),  # it takes "a " for "a"
        ("utf8mb4_0900_ai_ci", "utf8mb4_nopad_bin", True),
        ("utf8mb4_0900_ai_ci", "utf8mb4_unicode_520_nopad_ci", True),  # what the task itself creates
        ("utf8mb4_0900_ai_ci", "utf8mb4_uca1400_ai_ci", False),
    ],
)
def test_collations_decide_as_well(ours: str, theirs: str, *, so: bool) -> None:
    assert kept(table("a", ours, U), table("b", theirs, U)) is so


def test_a_unique_key_with_a_column_that_is_always_null_never_collides() -> None:
    source, target = table("a", "utf8mb4_bin"), table("b", "utf8mb4_bin", Index("u", ("own",)))
    own = Column("own", 2, "int", "int", True)

    def with_own(column: Column) -> bool:
        return kept(source, replace(target, columns=(*target.columns, column)))

    assert with_own(own)
    assert not with_own(replace(own, filled=True))
    assert not with_own(replace(own, generated=True))
