"""The report of a database's Test button: its version, and whether it and the account fit a source or a target.

It runs the precheck's checks that need no task. Most accounts fit one role only, because a source's
account need not write and a target's need not read a binlog: the report states first which role the account fits, then
why it does not fit the other one.
"""

from __future__ import annotations

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.connection import ServerInfo, connected, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.precheck.checks.privileges import ROWS
from airflow_provider_dm.engine.precheck.grants import Grants
from airflow_provider_dm.engine.precheck.result import CheckResult, State
from airflow_provider_dm.engine.precheck.run import check_source

RoleVerdict = tuple[bool, str]
"""True if a role fits, and the text about it."""


def describe_server(endpoint: Endpoint, wanted: str | None, config: SourceConfig) -> tuple[bool, str]:
    """Return (usable, text). Raises errors of connecting, and InvalidInput."""
    with connected(endpoint) as session:
        info = server_info(session)
        if wanted is not None and info.flavour.value != wanted:
            raise InvalidInput(
                f"{endpoint} is {info.flavour.value}; its connection has the flavour {wanted}.",
                "Check host and port, or set the connection's flavour to auto.",
            )
        grants = Grants.parse(text(row[0]) for row in query(session, "SHOW GRANTS"))
    roles = sorted((as_source(info, check_source(config, endpoint)), as_target(grants)), key=lambda role: not role[0])
    return True, " ".join([f"{info.capabilities.title} {info.version} at {endpoint}.", *(text for _, text in roles)])


def as_source(info: ServerInfo, results: tuple[CheckResult, ...]) -> RoleVerdict:
    """Return whether the server can be a source, with what is missing and the remedy of each."""
    if not info.capabilities.writes_binlog:
        return False, f"Not as a source: {info.capabilities.title} writes no binlog."
    failures = [result for result in results if result.state is State.FAIL]
    if not failures:
        return True, "Ready as a source."
    return False, "Not as a source: " + " ".join(f"{failure.message}: {failure.remedy}" for failure in failures)


def as_target(grants: Grants) -> RoleVerdict:
    """Return whether the account can write rows and create tables, and in which schemas."""
    wanted = (*ROWS, "CREATE")
    writable = [schema for schema in grants.schemas("CREATE") if all(schema in grants.schemas(one) for one in ROWS)]
    if not writable:
        missing = ", ".join(one for one in wanted if not grants.schemas(one)) or f"one schema with {', '.join(wanted)}"
        return False, f"Not as a target: {missing} is missing."
    return True, "Ready as a target" + ("." if writable == ["*"] else f" in {', '.join(writable)}.")
