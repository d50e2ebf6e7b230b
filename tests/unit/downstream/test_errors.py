"""The driver's errors become typed errors without row values."""

import pickle

import pymysql
import pytest

from airflow_provider_dm.engine.downstream.errors import (
    DuplicateInTarget,
    RowTooLarge,
    TargetBusy,
    TargetDenied,
    TargetRefused,
    TargetUnreachable,
    translate,
)
from airflow_provider_dm.engine.errors import DmError, Reaction


@pytest.mark.parametrize(
    ("error", "kind", "reaction"),
    [
        (pymysql.err.OperationalError(1213, "Deadlock found"), TargetBusy, Reaction.RETRY),
        (pymysql.err.OperationalError(1205, "Lock wait timeout"), TargetBusy, Reaction.RETRY),
        (pymysql.err.OperationalError(9007, "Write conflict"), TargetBusy, Reaction.RETRY),
        *((pymysql.err.OperationalError(number, "TiDB's"), TargetBusy, Reaction.RETRY)
          for number in (8002, 8005, 8022, 8027, 8028, 8055, 8120, 8176, 8229, 8252, 9001, 9002, 9003, 9004, 9013)),
        (pymysql.err.OperationalError(1105, "Information schema is changed."), TargetBusy, Reaction.RETRY),
        (pymysql.err.OperationalError(1105, "[try again later]"), TargetBusy, Reaction.RETRY),
        *((pymysql.err.OperationalError(1105, message), TargetBusy, Reaction.RETRY)  # as of a statement that is killed
          for message in ("context canceled", "context deadline exceeded", "rpc error: code = Unavailable desc = …")),
        (pymysql.err.OperationalError(1105, "tikv aborts txn: pessimistic lock not found"), TargetBusy, Reaction.RETRY),
        (pymysql.err.OperationalError(1105, "unknown: 's3cret'"), TargetRefused, Reaction.STOP),
        (pymysql.err.OperationalError(8025, "entry too large, the max entry size is 6291456, the size of data is 7"),
         RowTooLarge, Reaction.STOP),
        (pymysql.err.OperationalError(2013, "Lost connection"), TargetUnreachable, Reaction.RETRY),
        (pymysql.err.OperationalError(1159, "Got timeout reading packets"), TargetUnreachable, Reaction.RETRY),
        (pymysql.err.OperationalError(4031, "disconnected because of inactivity"), TargetUnreachable, Reaction.RETRY),
        (pymysql.err.OperationalError(1153, "Got a packet bigger"), TargetRefused, Reaction.STOP),
        (pymysql.err.InterfaceError(0, ""), TargetUnreachable, Reaction.RETRY),
        (pymysql.err.OperationalError(1290, "read-only"), TargetUnreachable, Reaction.RETRY),
        (pymysql.err.OperationalError(1114, "The table 'item' is full"), TargetUnreachable, Reaction.RETRY),
        (pymysql.err.OperationalError(1026, "Error writing file (Errcode: 28)"), TargetUnreachable, Reaction.RETRY),
        (pymysql.err.OperationalError(1030, "Got error 28 from storage engine"), TargetUnreachable, Reaction.RETRY),
        (pymysql.err.OperationalError(1030, "Got error 128 from storage engine"), TargetRefused, Reaction.STOP),
        (pymysql.err.OperationalError(1142, "INSERT command denied"), TargetDenied, Reaction.STOP),
        (pymysql.err.IntegrityError(1062, "Duplicate entry 's3cret' for key 'u'"), DuplicateInTarget, Reaction.STOP),
        (pymysql.err.DataError(1406, "Data too long for column 'a' at row 1"), TargetRefused, Reaction.STOP),
        (pymysql.err.DataError(1366, "Incorrect value: 's3cret' for column `a`.`b`.`c`"), TargetRefused, Reaction.STOP),
    ],
)  # fmt: skip
def test_errors_of_the_driver_are_translated(error: pymysql.err.Error, kind: type[DmError], reaction: Reaction) -> None:
    translated = translate(error, table="shop.item")

    assert type(translated) is kind
    assert translated.reaction is reaction
    assert "s3cret" not in str(translated)
    assert str(pickle.loads(pickle.dumps(translated))) == str(translated)


def test_a_duplicate_names_table_and_key() -> None:
    error = translate(pymysql.err.IntegrityError(1062, "Duplicate entry 'a' for key 'item.PRIMARY'"), table="shop.item")

    assert isinstance(error, DuplicateInTarget)
    assert (error.table, error.key) == ("shop.item", "item.PRIMARY")


def test_a_refusal_names_the_column() -> None:
    error = translate(pymysql.err.DataError(1264, "Out of range value for column 'price' at row 7"), table="shop.item")

    assert "'price'" in str(error)


def test_a_row_beyond_tidbs_limit_names_its_key_the_sizes_and_the_variable() -> None:
    text = "entry too large, the max entry size is 6291456, the size of data is 7000034"
    refused = pymysql.err.OperationalError(8025, text)
    error = translate(refused, table="shop.item", statement="INSERT of 1 row", key="`id` = 7")

    assert isinstance(error, RowTooLarge)
    assert (error.bytes, error.limit, error.variable) == (7000034, 6291456, "tidb_txn_entry_size_limit")
    assert "The statement is INSERT of 1 row. The row's key is `id` = 7." in error.message()


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (8200, "Unsupported drop primary key when the table is using clustered index"),
        (1105, "unsupported modify column"),
        (8175, "Your query has been cancelled … or increase the tidb_mem_quota_query limit"),
        (8253, "Query execution was interrupted, identified as runaway query"),
        (3108, "Column 'a' has a generated column dependency."),
    ],
)
def test_a_servers_refusal_is_shown_in_its_own_words(number: int, message: str) -> None:
    assert message in str(translate(pymysql.err.OperationalError(number, message), table="shop.item"))


@pytest.mark.parametrize(("number", "text"), [(3819, "CHECK_CONSTRAINT_VIOLATED"), (1644, "SIGNAL"), (3999, "manual")])
def test_an_error_is_named_whose_symbol_the_driver_lacks(number: int, text: str) -> None:
    error = translate(pymysql.err.OperationalError(number, "the value 's3cret'"), table="t")
    assert text in error.message()
    assert "s3cret" not in error.message()
