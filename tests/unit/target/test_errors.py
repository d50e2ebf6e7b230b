"""What the driver says becomes a typed error without row values."""

from __future__ import annotations

import pickle

import pymysql
import pytest

from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.target.errors import (
    DuplicateInTarget,
    TargetBusy,
    TargetDenied,
    TargetRefused,
    TargetUnreachable,
    translate,
)


@pytest.mark.parametrize(
    ("error", "kind", "reaction"),
    [
        (pymysql.err.OperationalError(1213, "Deadlock found"), TargetBusy, Reaction.RETRY),
        (pymysql.err.OperationalError(1205, "Lock wait timeout"), TargetBusy, Reaction.RETRY),
        (pymysql.err.OperationalError(9007, "Write conflict"), TargetBusy, Reaction.RETRY),
        (pymysql.err.OperationalError(2013, "Lost connection"), TargetUnreachable, Reaction.RETRY),
        (pymysql.err.OperationalError(1159, "Got timeout reading packets"), TargetUnreachable, Reaction.RETRY),
        (pymysql.err.OperationalError(4031, "disconnected because of inactivity"), TargetUnreachable, Reaction.RETRY),
        (pymysql.err.OperationalError(1153, "Got a packet bigger"), TargetRefused, Reaction.STOP),
        (pymysql.err.InterfaceError(0, ""), TargetUnreachable, Reaction.RETRY),
        (pymysql.err.OperationalError(1290, "read-only"), TargetUnreachable, Reaction.RETRY),
        (pymysql.err.OperationalError(1142, "INSERT command denied"), TargetDenied, Reaction.STOP),
        (pymysql.err.IntegrityError(1062, "Duplicate entry 's3cret' for key 'u'"), DuplicateInTarget, Reaction.STOP),
        (pymysql.err.DataError(1406, "Data too long for column 'a' at row 1"), TargetRefused, Reaction.STOP),
        (pymysql.err.DataError(1366, "Incorrect value: 's3cret' for column `a`.`b`.`c`"), TargetRefused, Reaction.STOP),
    ],
)  # fmt: skip
def test_translation(error: pymysql.err.Error, kind: type[DmError], reaction: Reaction) -> None:
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
