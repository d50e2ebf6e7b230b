"""Session variables of our connections: the value and reason of each pinned one, and those that a user may set.

Every variable that a server allows to be set per session is in PINNED, or in tests/integration/mysql/left_alone.py with
the reason; test_session.py there checks that on real servers (MySQL 9.7, MariaDB 10.11 and 11.8). Globals,
configuration files and `init_connect` belong to administrators: what we read, write and compare must not depend on
them.

A user's own settings (DM's `target-database.session`) may add to these values but not override them. Each pin decides
whether users may choose another value; sql_mode is merged. Pure: `pinning` sends the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.capabilities import Version, capabilities_of
from airflow_provider_dm.engine.mysql.endpoint import Flavour

Families: TypeAlias = dict[Flavour, Version]
"""The families that have a variable, with the first release that has it."""

MYSQL: Final[Families] = {Flavour.MYSQL: (), Flavour.TIDB: ()}
MARIADB: Final[Families] = {Flavour.MARIADB: ()}
TIDB: Final[Families] = {Flavour.TIDB: ()}
NO_LIMIT: Final = 2**64 - 1
FROZEN_SECONDS: Final = 60
"""Seconds without a statement after which a transaction that has written belongs to a process that hangs."""
SQL_MODE: Final = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
READING: Final = "REPEATABLE-READ"
WRITING: Final = "READ-COMMITTED"


@dataclass(frozen=True)
class Pin:
    """One variable. `why`: the effect of another value, as the end of a sentence. `users`: a user may choose another
    value. `ignored`: another value in the user's settings is not an error, but it is not sent. `writing`: only sessions
    that write need it.
    """

    name: str
    value: str | int | None
    why: str
    families: Families = field(default_factory=lambda: MYSQL | MARIADB)
    users: bool = False
    ignored: bool = False
    writing: bool = False


_CUT_OFF: Final = "results would be cut off"
_ABORTED: Final = "a long scan would be aborted"
_FROZEN: Final = "a process that hangs would block the run that replaces it, or a slow transaction would be aborted"
_COMPUTED: Final = "generated columns of the target are computed by it"
_SHOWN: Final = "the catalogue would not show the full definition of a table"

PINNED: Final[tuple[Pin, ...]] = (
    # Completeness of results
    Pin("sql_select_limit", NO_LIMIT, f"{_CUT_OFF}, without an error"),
    Pin("max_join_size", NO_LIMIT, "scans of large tables would be refused"),  # sets sql_big_selects, so it comes first
    Pin("sql_big_selects", 1, "scans of large tables would be refused"),
    Pin("sql_safe_updates", 0, "an UPDATE or DELETE without a key would be refused"),
    Pin("sql_auto_is_null", 0, "IS NULL would find the row that was inserted last"),
    Pin("sql_buffer_result", 0, "the server would first store whole results"),
    Pin("group_concat_max_len", 1 << 20, "long values would be cut off"),
    Pin("max_statement_time", 0, _ABORTED, MARIADB, users=True),
    Pin("max_execution_time", 0, _ABORTED, MYSQL, users=True),
    Pin("wait_timeout", 28_800, "a connection would be closed between two statements", users=True),
    Pin("net_read_timeout", 600, "a connection would be closed within a statement", users=True),
    Pin("net_write_timeout", 3_600, "a scan would be aborted while its rows are written elsewhere", users=True),
    Pin("idle_transaction_timeout", 0, "a transaction would be aborted between two statements", MARIADB, users=True),
    Pin("idle_readonly_transaction_timeout", 0, "a snapshot would be closed", MARIADB, users=True),
    Pin("idle_write_transaction_timeout", FROZEN_SECONDS, _FROZEN, MARIADB, users=True),
    Pin("tidb_idle_transaction_timeout", FROZEN_SECONDS, _FROZEN, TIDB, users=True),
    # Visibility of rows and changes
    Pin("completion_type", 0, "a COMMIT would begin another transaction, or close the connection"),
    Pin("autocommit", 1, "changes would not be committed, and reads would see an old state"),
    Pin("transaction_isolation", READING, "reads would see uncommitted rows, or lock rows"),
    Pin("transaction_read_only", 0, "nothing could be written"),
    Pin("use_secondary_engine", "OFF", "a secondary engine, which may lag, would be read", {Flavour.MYSQL: (8, 0, 18)}),
    Pin("wsrep_dirty_reads", 0, "a node that has lost its cluster would be read", MARIADB),
    Pin("tidb_low_resolution_tso", 0, "reads would see an old state, and nothing could be written", TIDB),
    Pin("tidb_enable_external_ts_read", 0, "reads would see an old state", TIDB),
    Pin("tidb_read_staleness", 0, "reads would see an old state", TIDB),
    Pin("tidb_snapshot", "", "reads would see an old state, and nothing could be written", TIDB),
    Pin("tiflash_fastscan", 0, "reads could see rows twice, or rows that are deleted", TIDB),
    Pin("tidb_txn_mode", "pessimistic", "a conflict would only be detected at the COMMIT", TIDB),
    Pin("tidb_constraint_check_in_place_pessimistic", 1, "a duplicate would only be detected at the COMMIT", TIDB),
    # Conversion of values that are written and read
    Pin("character_set_client", "utf8mb4", "statements would be decoded by another character set"),
    Pin("character_set_connection", "utf8mb4", "literals would be converted to another character set"),
    Pin("collation_connection", "utf8mb4_general_ci", "literals would be compared by another collation"),
    Pin("character_set_collations", "", "literals would be compared by another collation", {Flavour.MARIADB: (11, 2)}),
    Pin("character_set_results", None, "results would be converted, and could lose characters"),
    # DM's exports write the task's zone here; we read and write in UTC, so that every TIMESTAMP is the same moment.
    Pin("time_zone", "+00:00", "a TIMESTAMP would be another moment", ignored=True),
    Pin("sql_mode", SQL_MODE, "values would be changed instead of refused"),
    Pin("old_mode", "UTF8_IS_UTF8MB3", "utf8 would be another character set", {Flavour.MARIADB: (10, 6, 1)}),
    # MySQL 5.7, which has it off, lets only SUPER set it.
    Pin("explicit_defaults_for_timestamp", 1, "NULL would become the time of writing",
        {Flavour.MYSQL: (), Flavour.MARIADB: (10, 8, 2), Flavour.TIDB: ()}, writing=True),
    Pin("tidb_skip_utf8_check", 0, "invalid bytes would be stored as text", TIDB, ignored=True),
    Pin("tidb_skip_ascii_check", 0, "invalid bytes would be stored as text", TIDB, ignored=True),
    Pin("tidb_allow_remove_auto_inc", 1, "DDL that removes AUTO_INCREMENT from a column would be refused", TIDB),
    Pin("allow_auto_random_explicit_insert", 1, "the source's values of AUTO_RANDOM columns would be refused", TIDB),
    Pin("foreign_key_checks", 0, "rows arrive in the order of the log and of the chunks, not parents first"),
    Pin("unique_checks", 1, "a unique key might accept a duplicate"),
    Pin("check_constraint_checks", 1, "rows that violate CHECKs of the target would be accepted", MARIADB),
    Pin("div_precision_increment", 4, _COMPUTED, users=True),
    Pin("default_week_format", 0, _COMPUTED, users=True),
    Pin("lc_time_names", "en_US", _COMPUTED, users=True),
    Pin("block_encryption_mode", "aes-128-ecb", _COMPUTED,
        {Flavour.MYSQL: (), Flavour.MARIADB: (11, 2), Flavour.TIDB: ()}, users=True),
    Pin("default_regex_flags", "", _COMPUTED, MARIADB, users=True),
    Pin("default_storage_engine", "InnoDB", "a created table might not be transactional"),
    Pin("tidb_enable_clustered_index", 1, "a created table would not be ordered by its primary key", TIDB, users=True),
    Pin("restrict_fk_on_non_standard_key", "OFF", "a foreign key that exists at the source would be refused",
        {Flavour.MYSQL: (8, 4)}),
    # Order
    Pin("max_sort_length", 65_536, "long keys would be ordered by their first bytes only"),
    # Execution of statements: locks, warnings and rewriting that other code would notice
    Pin("range_optimizer_max_mem_size", 0, "a list of many keys would be a table scan", {Flavour.MYSQL: (5, 7, 12)}),
    Pin("in_predicate_conversion_threshold", 0, "a list of keys would become a subquery", MARIADB),
    Pin("tidb_opt_range_max_size", 0, "a list of many keys would be a table scan", TIDB, ignored=True),
    Pin("tidb_enable_cascades_planner", 0, "an unfinished planner would reject statements (1105)", TIDB),
    Pin("tidb_use_plan_baselines", 0, "a plan that TiDB has captured would cause warnings, which stop the task", TIDB),
    Pin("tidb_enable_unsafe_substitute", 0, "a column might replace an expression of another type", TIDB),
    # Messages and catalogue
    Pin("sql_notes", 1, "the server would not report changes of values"),
    Pin("note_verbosity", "basic", "the server would not report changes of values", {Flavour.MARIADB: (10, 6, 16)}),
    Pin("max_error_count", 65_535, "the server would not report changes of values", MARIADB),
    Pin("lc_messages", "en_US", "error messages could not be parsed"),
    Pin("information_schema_stats_expiry", 0, "sizes of tables could be a day old", {Flavour.MYSQL: (8,)}),
    Pin("show_gipk_in_create_table_and_information_schema", 1, _SHOWN, {Flavour.MYSQL: (8, 0, 30)}),
    Pin("show_create_table_verbosity", 0, _SHOWN, {Flavour.MYSQL: (5, 7, 22)}),
    Pin("show_create_table_skip_secondary_engine", 0, _SHOWN, {Flavour.MYSQL: (8, 0, 18)}),
    Pin("sql_quote_show_create", 1, _SHOWN),
)  # fmt: skip
"""In the order in which they are set."""

# Values that users may set (`session` of a database in task.yaml and source.yaml)

_HARMLESS: Final = (
    "ANSI_QUOTES ERROR_FOR_DIVISION_BY_ZERO IGNORE_SPACE NO_DIR_IN_CREATE NO_UNSIGNED_SUBTRACTION NO_ZERO_DATE "
    "NO_ZERO_IN_DATE ONLY_FULL_GROUP_BY SIMULTANEOUS_ASSIGNMENT STRICT_TRANS_TABLES TRADITIONAL"
)
"""Modes that refuse more, or affect statements that we do not send."""
_GOOD_MODES: Final = frozenset({*_HARMLESS.split(), *SQL_MODE.split(",")})
_DROPPED_MODES: Final = frozenset({"", "NO_AUTO_CREATE_USER"})
"""NO_AUTO_CREATE_USER affects only GRANT, and MySQL 8 does not know it any more."""
_UNKNOWN_MODE: Final = "the effect of this mode on rows is unknown"
_BAD_MODES: Final[Mapping[str, str]] = {
    "ANSI": "PIPES_AS_CONCAT and REAL_AS_FLOAT, which it contains, change what statements mean",
    "EMPTY_STRING_IS_NULL": "the empty string would become NULL",
    "HIGH_NOT_PRECEDENCE": "statements would have another meaning",
    "NO_BACKSLASH_ESCAPES": "text is sent with backslashes as escapes",
    "ORACLE": "the empty string would become NULL, and statements would have another meaning",
    "PAD_CHAR_TO_FULL_LENGTH": "CHAR values would be read with padding spaces",
    "PIPES_AS_CONCAT": "statements would have another meaning",
    "REAL_AS_FLOAT": "a created table would have other types",
    "TIME_ROUND_FRACTIONAL": "fractions of seconds would be rounded instead of refused",
    "TIME_TRUNCATE_FRACTIONAL": "fractions of seconds would be cut off instead of refused",
}
_ALIASES: Final = {"tx_isolation": "transaction_isolation", "tx_read_only": "transaction_read_only"}
"""MariaDB's names before 11.1."""
_BY_NAME: Final = {pin.name: pin for pin in PINNED}
_ON_OFF: Final = {"on": "1", "true": "1", "off": "0", "false": "0", "null": "none"}
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")


def _session_conflict(server: str, variable: str, value: str, why: str, *, pinned: str | None = None) -> InvalidInput:
    allowed = "" if pinned is None else f" It must be {pinned!r}."
    return InvalidInput(
        f"the session of {server} sets {variable} to {value!r}, which is not allowed: {why}.{allowed}",
        "Leave it out of `session` (or of the connection's session variables).",
    )


@dataclass(frozen=True)
class Setting:
    """A variable and the value that is sent for it. `chosen`: the user chose it."""

    name: str
    value: str | int | float | None
    chosen: bool = False


def settings(
    flavour: Flavour, version: Version, *, isolation: str, server: str, session: Sequence[tuple[str, str]]
) -> list[Setting]:
    """List a session's settings on this server, in order. `session`: the user's settings. Raises InvalidInput."""
    for name, value in session:
        _check(server, name, value)
    chosen = {_current(name): value for name, value in session}
    found = []
    for pin in PINNED:
        since = pin.families.get(flavour)
        if since is not None and since <= version and not (pin.writing and isolation == READING):
            pinned = isolation if pin.name == "transaction_isolation" else pin.value
            found.append(_setting(pin, pinned, chosen.pop(pin.name, None), flavour, version))
    return [*found, *(Setting(name, _typed(value), chosen=True) for name, value in chosen.items())]


def _setting(pin: Pin, value: str | int | None, chosen: str | None, flavour: Flavour, version: Version) -> Setting:
    name = pin.name
    if capabilities_of(flavour, version).isolation_is_tx:
        name = {new: old for old, new in _ALIASES.items()}.get(name, name)
    if chosen is None:
        return Setting(name, value)
    if name == "sql_mode":
        return Setting(name, ",".join(dict.fromkeys([*SQL_MODE.split(","), *_wanted_modes(chosen)])), chosen=True)
    return Setting(name, _typed(chosen), chosen=True) if pin.users else Setting(name, value)


def _check(server: str, name: str, value: str) -> None:
    if not name.replace("_", "").isalnum() or not name.isascii():
        raise _session_conflict(server, name, value, "no session variable has such a name")
    if _current(name) == "sql_mode":
        for mode in _wanted_modes(value):
            if mode not in _GOOD_MODES:
                why = f"{mode}: {_BAD_MODES.get(mode, _UNKNOWN_MODE)}"
                raise _session_conflict(server, name, value, why, pinned=SQL_MODE)
        return
    pin = _BY_NAME.get(_current(name))
    if pin is not None and not (pin.users or pin.ignored) and _normalized(value) != _normalized(str(pin.value)):
        raise _session_conflict(server, name, value, pin.why, pinned=str(pin.value))


def _current(name: str) -> str:
    return _ALIASES.get(name.lower(), name.lower())


def _wanted_modes(value: str) -> Iterator[str]:
    modes = (mode.strip().upper() for mode in value.split(","))
    return (mode for mode in modes if mode not in _DROPPED_MODES)


def _normalized(value: str) -> str:
    """Return one text for all spellings of a value."""
    value = value.strip().strip("'").lower()
    return _ON_OFF.get(value, value)


def _typed(value: str) -> str | int | float:
    """Convert the text of a number to a number: MySQL refuses text for numeric variables (1232)."""
    if not _NUMBER.fullmatch(value):
        return value
    return float(value) if "." in value else int(value)
