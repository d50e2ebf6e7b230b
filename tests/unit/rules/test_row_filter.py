"""The row changes that pass filters, and the rows that the target may lack after them."""

from typing import Any

import pytest
from pydantic import ValidationError

from airflow_provider_dm.engine.config.rule_models import ExpressionFilter, FilterRule
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.errors import ExpressionNotSupported, StoppedByFilter
from airflow_provider_dm.engine.rules.event_filter import EventFilter
from airflow_provider_dm.engine.rules.row_filter import ExpressionFilters, FilterLoss, RowFilter, row_filter
from airflow_provider_dm.engine.schema.model import Column, Table

T5 = Table(
    TableName("expr_filter", "t5"), (Column("id", 0, "int", "int", False), Column("c", 1, "int", "int", True)), ()
)
ONE, TWO, MANY = (b"1", b"1"), (b"1", b"2"), (b"1", b"101")


def expressions(*given: dict[str, Any], case_sensitive: bool = False) -> ExpressionFilters:
    named = ({"schema": "expr_filter", "table": "t5"} | one for one in given)
    return ExpressionFilters(tuple(map(ExpressionFilter.model_validate, named)), case_sensitive)


def events(*given: dict[str, Any]) -> EventFilter:
    return EventFilter.from_config(map(FilterRule.model_validate, given), case_sensitive=False)


def filter_of(*given: dict[str, Any]) -> RowFilter:
    found = row_filter(EventFilter(), expressions(*given), T5)
    assert found is not None
    return found


DM = filter_of(
    {"update-old-value-expr": "c > 100"},
    {"update-new-value-expr": "c > 100"},
    {"update-old-value-expr": "c = 1", "update-new-value-expr": "c = 2"},
)
"""The three filters of DM's own test on one table."""


@pytest.mark.parametrize(
    ("before", "after", "keeps"),
    [
        ((b"1", b"99"), (b"1", b"110"), False),
        ((b"2", b"101"), (b"2", b"20"), False),
        (ONE, TWO, False),
        (ONE, (b"1", b"3"), True),
        (None, MANY, True),
        (MANY, None, True),
        ((b"1", None), ONE, True),
    ],
)
def test_old_and_new_of_one_filter_are_and_filters_are_or(before: Any, after: Any, keeps: bool) -> None:
    assert DM.keeper()(before, after) is keeps


def test_the_loss_of_a_filter() -> None:
    assert DM.loss is FilterLoss.ROWS
    assert filter_of({"insert-value-expr": "c % 2 = 0"}).loss is FilterLoss.ROWS
    assert filter_of({"delete-value-expr": "c = 1"}).loss is FilterLoss.DELETES
    deletes = row_filter(
        events({"schema-pattern": "expr*", "events": ["delete"], "action": "Ignore"}), expressions(), T5
    )
    assert deletes is not None
    assert (deletes.loss, deletes.keeper()(ONE, None), deletes.keeper()(ONE, TWO)) == (FilterLoss.DELETES, False, True)
    assert (
        row_filter(events({"schema-pattern": "other", "events": ["all dml"], "action": "Ignore"}), expressions(), T5)
        is None
    )


@pytest.mark.parametrize(
    ("rule", "loss"),
    [
        ({"events": ["truncate table"]}, FilterLoss.DELETES),
        ({"events": ["drop database"]}, FilterLoss.DELETES),
        ({"events": ["none dml"], "sql-pattern": ["^DROP"]}, FilterLoss.DELETES),
        ({"events": ["rename table"], "schema-pattern": "elsewhere"}, FilterLoss.DELETES),
        ({"events": ["drop table"], "schema-pattern": "elsewhere"}, None),
        ({"events": ["drop index"]}, None),
        ({"events": ["truncate table"], "action": "Error"}, None),
        ({"events": ["all dml"], "action": "Do"}, FilterLoss.DELETES),
        ({"events": ["all"], "action": "Do"}, None),
    ],
)
def test_rows_stay_where_ddl_that_would_remove_them_is_left_out(rule: dict[str, Any], loss: FilterLoss | None) -> None:
    given = {"schema-pattern": "expr*", "action": "Ignore"} | rule
    found = row_filter(events(given), expressions(), T5)
    assert (found and found.loss) == loss


def test_an_error_stops_at_the_row() -> None:
    found = row_filter(events({"schema-pattern": "*", "events": ["delete"], "action": "Error"}), expressions(), T5)
    assert found is not None
    assert found.loss is FilterLoss.NOTHING
    with pytest.raises(StoppedByFilter, match="delete"):
        found.keeper()(ONE, None)


def test_dropping_a_missing_column_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """DM has it so: it may have been dropped, and may come back."""
    assert row_filter(EventFilter(), expressions({"insert-value-expr": "d > 1"}), T5) is None
    assert "the table has no column d" in caplog.text


def test_an_unsupported_expression_is_refused_when_the_plan_is_made() -> None:
    with pytest.raises(ExpressionNotSupported, match="the function NOW"):
        row_filter(EventFilter(), expressions({"insert-value-expr": "c > NOW()"}), T5)


def test_names_are_case_sensitive_if_configured() -> None:
    given = {"schema": "EXPR_filter", "insert-value-expr": "c = 1"}
    assert row_filter(EventFilter(), expressions(given), T5) is not None
    assert row_filter(EventFilter(), expressions(given, case_sensitive=True), T5) is None


@pytest.mark.parametrize("given", [{}, {"insert-value-expr": "c", "delete-value-expr": "c"}])
def test_a_filter_applies_to_one_event_type(given: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="insert-, update-old-"):
        expressions(given)


def test_the_columns_that_are_needed() -> None:
    assert DM.columns() == {1}
