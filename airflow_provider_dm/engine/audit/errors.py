"""Errors of audits."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import UpstreamError


class TableUndefined(UpstreamError):
    table: str
    at: str

    code = "DM-3050"
    what = "the log has rows of {table} in {at}, but there is no definition of the table."
    hint = (
        "It may have been dropped or renamed since. Give a definitions file that has it, choose by table or schema, or "
        "leave such tables out with undefined=skip."
    )


class UndecodableText(UpstreamError):
    at: str
    table: str
    column: str
    charset: str
    value: str

    code = "DM-3051"
    what = "column `{column}` of {table} has a value at {at} that is not text in {charset}: {value}."
    hint = "Read it with the option text=binary, which returns text as the stored bytes."
