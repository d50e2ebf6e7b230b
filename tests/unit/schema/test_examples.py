"""The examples in docstrings are run."""

import doctest
from types import ModuleType

import pytest

from airflow_provider_dm.engine.binlog import cells, client_charsets, gtid_events
from airflow_provider_dm.engine.ddl import (
    collations,
    column_types,
    constraints,
    dialects,
    expressions,
    first_words,
    lexer,
    target_alter,
    target_code,
    target_statements,
    write,
)
from airflow_provider_dm.engine.mysql import sql_modes, tls
from airflow_provider_dm.engine.schema import (
    addresses,
    compression,
    json_binary,
    json_text,
    numbers,
    strings,
    temporal,
)

MODULES = [
    addresses,
    compression,
    json_binary,
    json_text,
    numbers,
    strings,
    temporal,
    cells,
    client_charsets,
    gtid_events,
    collations,
    column_types,
    constraints,
    dialects,
    expressions,
    first_words,
    lexer,
    target_alter,
    target_code,
    target_statements,
    write,
    sql_modes,
    tls,
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed
