"""Names in SQL."""

import pytest

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.identifiers import TableName


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_an_invalid_table_name_has_a_remedy(name: str) -> None:
    with pytest.raises(DmError, match="Correct the name in the task's files"):
        TableName("x", name).quoted()
    assert TableName("x", "a`b").quoted() == "`x`.`a``b`"
