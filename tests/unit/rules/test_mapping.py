"""The target tables that can hold a source table's rows."""

import pickle
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.errors import ExtractNotPossible, TargetTableMismatch
from airflow_provider_dm.engine.rules.mapping import map_table, objection
from airflow_provider_dm.engine.schema.codec import row_reader
from airflow_provider_dm.engine.schema.model import Column, Index, Table


def column(text: str, position: int = 0) -> Column:
    """`name type(detail) unsigned`, as the catalogue would describe it."""
    name, _, kind = text.partition(" ")
    data_type, _, rest = kind.partition("(")
    numbers = [int(part) for part in rest.partition(")")[0].split(",") if part.strip().isdigit()]
    data_type = data_type.split()[0]
    precise = data_type in ("decimal", "float", "double")
    return Column(
        name=name,
        position=position,
        data_type=data_type,
        column_type=kind,
        nullable=True,
        numeric_scale=numbers[1] if precise and len(numbers) > 1 else (0 if data_type == "decimal" else None),
        datetime_precision=(numbers or [0])[0] if data_type in ("time", "datetime", "timestamp") else None,
        octet_length={"text": 65535, "longtext": 4294967295}.get(data_type),
    )


def table(name: str, *columns: str, key: tuple[str, ...] = ()) -> Table:
    keys = (Index("PRIMARY", key),) if key else ()
    return Table(TableName("s", name), tuple(column(text, at) for at, text in enumerate(columns)), keys)


def test_columns_pair_by_name_whatever_their_order_and_case() -> None:
    mapping = map_table(table("a", "id bigint", "v varchar(9)"), table("b", "V varchar(9)", "ID int", key=("ID",)))
    assert [column.name for column in mapping.target_columns] == ["ID", "V"]


def test_a_target_without_a_key_is_allowed() -> None:
    map_table(table("a", "id bigint", key=("id",)), table("b", "id bigint"))


def test_a_mismatch_shows_all_differences_both_column_lists_and_a_remedy() -> None:
    source = table("a", "id bigint", "new `col", "v decimal(9,4)", "t text")
    with pytest.raises(TargetTableMismatch) as refusal:
        map_table(source, filled(table("b", "id bigint", "v decimal(9,2)", "old int", "t blob")))
    error = refusal.value
    assert error.missing == ("new `col",)
    assert error.extra == ("old int",)
    assert error.different == (
        "v decimal(9,4) -> decimal(9,2) (fewer decimals would round)",
        "t text -> blob (a different kind of value)",
    )
    assert "Source columns: id bigint, new `col, v decimal(9,4), t text." in str(error)
    assert "ALTER TABLE `s`.`b` ADD COLUMN `new` `col" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def filled(one: Table) -> Table:
    """The table with all columns NOT NULL."""
    return replace(one, columns=tuple(replace(column, nullable=False) for column in one.columns))


def test_the_target_may_have_columns_that_it_fills_by_itself() -> None:
    mapping = map_table(table("a", "id int", "v int"), table("b", "more int", "v int", "id int", key=("id",)))
    assert (mapping.written, [column.name for column in mapping.target_columns]) == ((0, 1), ["id", "v"])


def test_a_default_is_enough_and_a_column_without_one_is_not() -> None:
    source, own = table("a", "id int"), replace(column("own int", 1), nullable=False)
    target = replace(table("b", "id int", key=("id",)), columns=(column("id int"), replace(own, filled=True)))
    assert map_table(source, target).written == (0,)
    with pytest.raises(TargetTableMismatch):
        map_table(source, replace(target, columns=(column("id int"), own)))


def test_a_key_that_the_target_numbers_identifies_no_rows() -> None:
    """The next one does; where there is none, rows are counted."""
    number = replace(column("n bigint", 1), nullable=False, filled=True, auto_increment=True)
    by_id = Index("u", ("id",))
    target = replace(filled(table("b", "id int", key=("n",))), columns=(*filled(table("b", "id int")).columns, number))

    assert map_table(table("a", "id int"), target).target.identity is None
    keyed = replace(target, unique_keys=(*target.unique_keys, by_id))
    assert map_table(table("a", "id int"), keyed).target.identity == by_id
    numbered = table("a", "id int", "n bigint")
    numbered = replace(numbered, columns=tuple(replace(one, nullable=False) for one in numbered.columns))
    given = map_table(numbered, keyed).target.identity
    assert given is not None
    assert given.primary


def text_column(charset: str = "utf8mb4", kind: str = "varchar(4)") -> Table:
    added = replace(column(f"c {kind}"), charset=charset, nullable=False)
    return replace(table("b", "id int"), columns=(*table("b", "id int").columns, replace(added, position=1)))


def test_routing_adds_columns_after_the_sources_own() -> None:
    mapping = map_table(table("a", "id int"), text_column(), {"C": "één"})
    assert [(one.name, one.constant) for one in mapping.source.columns] == [("id", None), ("c", "één".encode())]
    assert mapping.source.stored == table("a", "id int")
    assert mapping.source.constants == ("één".encode(),)
    assert Table.from_json(mapping.source.to_json()) == table("a", "id int")
    assert map_table(table("a", "id int"), text_column("latin1"), {"c": "é"}).source.constants == (b"\xe9",)
    assert row_reader(mapping.source)[0] == "`id`, 'één'"


@pytest.mark.parametrize(
    ("into", "extracted", "why"),
    [
        (table("b", "id int"), {"c": "x"}, "the target has no such column"),
        (text_column(), {"id": "x"}, "has a column of that name"),
        (text_column(kind="date"), {"c": "x"}, "it is date"),
        (text_column(kind="int"), {"c": "01"}, "it is int"),
        (text_column(kind="tinyint"), {"c": "128"}, "does not fit"),
        (text_column(kind="bigint"), {"c": "9223372036854775808"}, "does not fit"),
        (text_column(), {"c": "12345"}, "does not fit"),
        (text_column("ascii"), {"c": "é"}, "lacks a character of"),
        (text_column(kind="char(4)"), {"c": "a "}, "drops trailing spaces"),
    ],
)
def test_a_column_that_routing_cannot_fill_is_refused(into: Table, extracted: dict[str, str], why: str) -> None:
    with pytest.raises(ExtractNotPossible, match=why):
        map_table(table("a", "id int"), into, extracted)


def test_a_number_in_a_name_fits_an_integer_column() -> None:
    assert map_table(table("a", "id int"), text_column(kind="int"), {"c": "12"}).source.constants == (b"12",)
    unsigned = text_column(kind="tinyint unsigned")
    assert map_table(table("a", "id int"), unsigned, {"c": "255"}).source.constants == (b"255",)


def test_a_key_over_a_column_that_no_row_fills_is_named() -> None:
    with pytest.raises(TargetTableMismatch, match="shard is in the target's key and not in the source"):
        map_table(table("a", "id int"), table("b", "id int", "shard int", key=("shard", "id")))


def test_a_column_that_the_target_computes_cannot_be_written() -> None:
    target = replace(table("b", "id int"), columns=(replace(column("id int"), generated=True),))
    with pytest.raises(TargetTableMismatch, match="the target generates it"):
        map_table(table("a", "id int"), target)


def test_columns_that_both_sides_generate_are_not_written() -> None:
    def computed(name: str, *columns: str) -> Table:
        plain = table(name, "id int", *columns, key=("id",))
        return replace(plain, columns=tuple(replace(one, generated=one.name == "twice") for one in plain.columns))

    source, target = computed("a", "twice int", "e enum('a')"), computed("b", "e enum('a')", "twice bigint")
    mapping = map_table(source, target)
    assert (mapping.written, mapping.enums) == ((0, 2), (2,))
    stored = map_table(source, table("b", "id int", "twice int", "e enum('a')"))
    assert stored.written == (0, 1, 2)
    assert pickle.loads(pickle.dumps(mapping)) == mapping


def computing(name: str, kind: str, expression: str, *, key: tuple[str, ...] = ("id",)) -> Table:
    plain = table(name, "id int", "a decimal(9,2)", "s varchar(9)", f"g {kind}", key=key)
    last = replace(plain.columns[-1], generated=True, expression=expression)
    return replace(plain, columns=(*plain.columns[:-1], last))


@pytest.mark.parametrize(
    ("theirs", "ours", "certain"),
    [
        ("(`id` + 1)", "`id` + 1", True),  # MySQL's way to write it and MariaDB's
        ("(`a` * `id`)", "(`a` * `id`)", True),
        ("-(`id`)", "-(`id`)", True),
        ("(`id` + 1)", "(`id` + 2)", False),
        ("(`id` / 7)", "(`id` / 7)", False),  # div_precision_increment
        ("(`id` DIV 7)", "(`id` DIV 7)", False),  # ERROR_FOR_DIVISION_BY_ZERO
        ("(`s` + 1)", "(`s` + 1)", False),  # a text becomes a number
        ("concat(`s`,1)", "concat(`s`,1)", False),
        ("", "", False),
    ],
)
def test_computed_columns_are_certain_or_compared(theirs: str, ours: str, certain: bool) -> None:
    mapping = map_table(computing("a", "varchar(40)", theirs), computing("b", "varchar(40)", ours))
    assert mapping.computed == (3,)
    assert mapping.uncertain == (() if certain else (3,))


@pytest.mark.parametrize(("key", "places"), [(("s", "id"), (2, 0)), ((), None), (("g",), None)])
def test_a_row_is_found_again_by_given_values(key: tuple[str, ...], places: tuple[int, ...] | None) -> None:
    one, other = (computing(name, "int", "`id` / 2", key=key) for name in "ab")
    assert map_table(one, other).found_by == places


def test_json_of_mariadb_is_kept_by_a_json_column() -> None:
    text = replace(column("c longtext"), charset="utf8mb4", collation="utf8mb4_bin")
    assert objection(text, column("c json")) is None
    assert objection(replace(text, collation="utf8mb4_general_ci"), column("c json")) is not None


def test_a_charset_that_only_mysql_has_stays_in_it() -> None:
    ours = replace(column("c varchar(9)"), charset="gb18030")
    assert objection(ours, ours) is None
    assert objection(ours, replace(ours, charset="utf8mb4")) is not None


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("tinyint", "bigint unsigned"), ("bigint", "int"), ("decimal(9,2)", "decimal(20,4)"),
        ("float", "double"), ("float", "float"), ("float(7,2)", "float(9,3)"), ("float(7,2)", "float"),
        ("float(5,0)", "float(5,0)"), ("double(9,0)", "double(9,0)"), ("float(5,0)", "double(9,1)"),
        ("char(9)", "varchar(3)"), ("varchar(9)", "longtext"), ("text", "longtext"), ("longtext", "text"),
        ("varchar(9)", "varchar(9)"), ("binary(4)", "varbinary(4)"), ("binary(4)", "binary(4)"),
        ("varbinary(9)", "blob"), ("datetime(3)", "datetime(6)"), ("enum('a')", "enum('a','b')"), ("json", "json"),
        ("json", "longtext"), ("point", "geometry"), ("geomcollection", "geometrycollection"), ("uuid", "uuid"),
    ],
)  # fmt: skip
def test_types_that_keep_or_reject_every_value(theirs: str, ours: str) -> None:
    assert objection(column(f"c {theirs}"), column(f"c {ours}")) is None


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("int", "varchar(20)"), ("int", "decimal(20,0)"), ("datetime", "timestamp"), ("date", "datetime"),
        ("varchar(9)", "varbinary(9)"), ("enum('a')", "varchar(9)"), ("json", "char(9)"),
        ("longtext", "json"), ("uuid", "char(36)"), ("inet4", "inet6"), ("vector(3)", "blob"), ("point", "blob"),
        ("decimal(9,4)", "decimal(20,2)"), ("double", "float"), ("double", "double(9,2)"), ("float(9,3)", "float(9,2)"),
        ("float(9,1)", "float(9,0)"), ("double", "double(9,0)"),
        ("varchar(9)", "char(9)"), ("varchar(9)", "varchar(8)"), ("text", "varchar(1000)"),
        ("binary(4)", "binary(8)"), ("varbinary(4)", "binary(4)"), ("time(6)", "time(3)"), ("datetime(1)", "datetime"),
    ],
)  # fmt: skip
def test_conversions_that_strict_mode_accepts_with_changes_are_refused(theirs: str, ours: str) -> None:
    assert objection(column(f"c {theirs}"), column(f"c {ours}")) is not None
