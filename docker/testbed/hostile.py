"""Unusual global settings that an administrator may have chosen: answers that end early, other modes,
other time zones, other isolation.

`ServerSpec(hostile=True)`, or `DM_HOSTILE_SERVERS=1` for every server of a run, starts a server with all of them, by an
init-file, so that they also apply after a restart. `Server.connect` and `Server.sql` undo them in their own sessions:
tests use a hostile server like any other, and only the tested code meets the settings.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

Flavour = Literal["mariadb", "mysql"]

NO_LIMIT: Final = 2**64 - 1
_MODES: Final = "ANSI_QUOTES,HIGH_NOT_PRECEDENCE,IGNORE_SPACE,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION,"
_MORE_MODES: Final = "PAD_CHAR_TO_FULL_LENGTH,PIPES_AS_CONCAT,REAL_AS_FLOAT"
_HOSTILE_MODES: Final = f"'{_MODES}{_MORE_MODES}'"
_MYSQL_MODES: Final = "NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
_MARIADB_MODES: Final = "ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION"

_EMPTY: Final = "LEFT('-', 0)"  # under EMPTY_STRING_IS_NULL the literal '' would be NULL


@dataclass(frozen=True)
class Hostile:
    """A variable, its hostile value, and its value in a session of an ordinary server. `since`: the first MariaDB that
    has the variable, such as `100600`.

    `calm` None: PyMySQL sets the variable itself at login."""

    name: str
    value: str
    calm: str | None
    since: int = 0

    def assignment(self, scope: str, value: str) -> str:
        """Return `SESSION name = value`, in a version comment if older releases lack the variable."""
        text = f"{scope} {self.name} = {value}"
        return f"/*M!{self.since} , {text} */" if self.since else f", {text}"


_COMMON: Final = (
    Hostile("sql_select_limit", "3", f"{NO_LIMIT}"),
    Hostile("max_join_size", "10", f"{NO_LIMIT}"),
    Hostile("sql_big_selects", "0", "1"),
    Hostile("sql_safe_updates", "1", "0"),
    Hostile("sql_auto_is_null", "1", "0"),
    Hostile("sql_buffer_result", "1", "0"),
    Hostile("group_concat_max_len", "4", "1024"),
    Hostile("wait_timeout", "3", "28800"),
    Hostile("lock_wait_timeout", "2", "86400"),
    Hostile("innodb_lock_wait_timeout", "1", "50"),
    Hostile("completion_type", "1", "0"),  # before autocommit: setting autocommit to 1 commits
    Hostile("autocommit", "0", "1"),
    Hostile("character_set_client", "latin1", None),
    Hostile("character_set_connection", "latin1", None),
    Hostile("character_set_results", "latin1", None),
    Hostile("time_zone", "'+05:30'", "'SYSTEM'"),
    Hostile("unique_checks", "0", "1"),
    Hostile("explicit_defaults_for_timestamp", "0", "1"),
    Hostile("div_precision_increment", "10", "4"),
    Hostile("default_week_format", "3", "0"),
    Hostile("lc_time_names", "'de_DE'", "'en_US'"),
    Hostile("lc_messages", "'de_DE'", "'en_US'"),
    Hostile("max_sort_length", "8", "1024"),
    Hostile("sql_notes", "0", "1"),
    Hostile("max_error_count", "0", "64"),
    Hostile("sql_quote_show_create", "0", "1"),
    Hostile("innodb_strict_mode", "0", "1"),
    Hostile("default_storage_engine", "MyISAM", "InnoDB"),
    Hostile("auto_increment_increment", "7", "1"),
    Hostile("auto_increment_offset", "3", "1"),
)
HOSTILE: Final[dict[Flavour, tuple[Hostile, ...]]] = {
    "mysql": (
        *_COMMON,
        Hostile("sql_mode", _HOSTILE_MODES, f"'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,{_MYSQL_MODES}'"),
        Hostile("transaction_isolation", "'READ-UNCOMMITTED'", "'REPEATABLE-READ'"),
        Hostile("transaction_read_only", "1", "0"),
        Hostile("max_execution_time", "2000", "0"),
        Hostile("block_encryption_mode", "'aes-256-cbc'", "'aes-128-ecb'"),
        Hostile("range_optimizer_max_mem_size", "1", "8388608"),
        Hostile("show_gipk_in_create_table_and_information_schema", "0", "1"),
        Hostile("show_create_table_verbosity", "1", "0"),
        Hostile("sql_generate_invisible_primary_key", "1", "0"),
        Hostile("sql_require_primary_key", "1", "0"),
    ),
    "mariadb": (
        *_COMMON,
        Hostile("sql_mode", f"{_HOSTILE_MODES[:-1]},EMPTY_STRING_IS_NULL'", f"'STRICT_TRANS_TABLES,{_MARIADB_MODES}'"),
        Hostile("tx_isolation", "'READ-UNCOMMITTED'", "'REPEATABLE-READ'"),
        Hostile("tx_read_only", "1", "0"),
        Hostile("max_statement_time", "2", "0"),
        Hostile("idle_transaction_timeout", "3", "0"),
        Hostile("check_constraint_checks", "0", "1"),
        Hostile("default_regex_flags", "'EXTENDED'", _EMPTY),
        Hostile("old_mode", "''", "'UTF8_IS_UTF8MB3'"),
        Hostile("in_predicate_conversion_threshold", "2", "1000"),
        Hostile("note_verbosity", "'unusable_keys'", "'basic,explain'"),
        Hostile("innodb_snapshot_isolation", "1", "0"),
        Hostile("character_set_collations", "'utf8mb4=utf8mb4_bin'", _EMPTY, 110200),
        Hostile("block_encryption_mode", "'aes-256-cbc'", "'aes-128-ecb'", 110200),
    ),
}


def init_file(flavour: Flavour) -> str:
    """Return the init-file of a hostile server: one statement, on one line."""
    return f"SET {_joined(one.assignment('GLOBAL', one.value) for one in HOSTILE[flavour])};\n"


def calming(flavour: Flavour) -> str:
    """Return the statement that gives one session the settings of an ordinary server."""
    known = [one for one in HOSTILE[flavour] if one.calm is not None]
    return f"SET {_joined(one.assignment('SESSION', str(one.calm)) for one in known)}"


def _joined(assignments: Iterable[str]) -> str:
    return " ".join(assignments).removeprefix(", ")
