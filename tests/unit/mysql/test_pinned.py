"""The allowed variables of `session`, and the statements that are sent for them."""

import pytest

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.pinned import WRITING, settings


def sent(**session: str) -> dict[str, str | int | float | None]:
    found = settings(Flavour.TIDB, (8, 5), isolation=WRITING, server="one", session=tuple(session.items()))
    return {one.name: one.value for one in found}


def test_session_variables_of_dms_examples_change_no_row() -> None:
    found = sent(tidb_skip_utf8_check="1", tidb_constraint_check_in_place="0")
    assert (found["tidb_skip_utf8_check"], found["tidb_constraint_check_in_place"]) == (0, 0)


def test_transactions_of_another_kind_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"tidb_txn_mode to 'optimistic'.*only be detected at the COMMIT"):
        sent(tidb_txn_mode="optimistic")
    assert sent()["tidb_txn_mode"] == "pessimistic"
    for old_state in ({"tidb_read_staleness": "-5"}, {"tidb_snapshot": "2026-01-01 00:00:00"}):
        with pytest.raises(InvalidInput, match="reads would see an old state"):
            sent(**old_state)
