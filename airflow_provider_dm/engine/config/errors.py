"""The errors of configuration files, their patterns and their secrets."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import DmError


class ConfigError(DmError):
    """A configuration that cannot be used. `problems` are lines of the form `FILE:LINE: problem`."""

    file: str
    problems: tuple[str, ...]

    code = "DM-1001"
    hint = "Correct the file, and try again."

    def happened(self) -> str:
        return "\n".join(self.problems)

    def message(self) -> str:
        return self.happened()  # each line contains its own remedy


class InvalidPattern(DmError):
    pattern: str
    why: str

    code = "DM-1103"
    what = "{pattern!r} cannot be used as a pattern: {why}."
    hint = "Correct the pattern in the rules of the task."


class SecretMissing(DmError):
    variable: str
    wanted_by: str

    code = "DM-1301"
    what = "the secret {variable} of {wanted_by} has not reached this process."
    hint = "Launch the app through an operator or dmctl, which pass it on."


class CannotDecrypt(ValueError):
    """A text that cannot be decrypted with the available key; states why, without any part of the text."""
