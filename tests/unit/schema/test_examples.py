"""The examples in docstrings are run."""

import doctest
from importlib import import_module

import pytest

MODULES = {
    "binlog": "cells client_charsets gtid_events",
    "ddl": "collations column_types constraints dialects expressions first_words lexer target_alter target_code "
    "target_statements write",
    "mysql": "sql_modes tls",
    "schema": "addresses compression json_binary json_text numbers strings temporal",
}


@pytest.mark.parametrize("module", [f"{room}.{name}" for room, names in MODULES.items() for name in names.split()])
def test_examples(module: str) -> None:
    result = doctest.testmod(import_module(f"airflow_provider_dm.engine.{module}"))
    assert result.attempted
    assert not result.failed
