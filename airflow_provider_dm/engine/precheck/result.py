"""The result of a check, and the report of all checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.precheck.errors import PrecheckFailed

MOST_NAMED: Final = 10


class State(StrEnum):
    """The state of a check's result. DM's words are success, warn and fail."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


Finding: TypeAlias = tuple[State, str, str]
"""A finding of a check: state, message, remedy."""
Findings: TypeAlias = Iterable[Finding]


@dataclass(frozen=True)
class CheckResult:
    """One check on one server. `where` is a source-id or "target"; `remedy` is empty for `ok`."""

    name: str
    where: str
    state: State
    message: str
    remedy: str = ""

    @classmethod
    def failed(cls, name: str, where: str, error: DmError) -> CheckResult:
        """Return the failure of a check by an error, with the error's remedy."""
        return cls(name, where, State.FAIL, *message_and_remedy(error))

    def __str__(self) -> str:
        end = "" if not self.remedy or self.message.endswith((".", "!", "?")) else "."
        return f"{self.state.value:<4}  {self.where}  {self.name}: {self.message}{end} {self.remedy}".rstrip()


@dataclass(frozen=True)
class PrecheckReport:
    """All results, in the order of sources and checks."""

    task: str
    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """True unless a check failed; warnings do not fail a task."""
        return not self.failures

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.state is State.FAIL)

    @property
    def warnings(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.state is State.WARN)

    def require_passed(self) -> None:
        """Raise PrecheckFailed if a check failed."""
        if not self.passed:
            failures = tuple(f"{failure.where} {failure.name}: {failure.message}" for failure in self.failures)
            raise PrecheckFailed(self.task, failures, tuple(failure.remedy for failure in self.failures))

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "passed": self.passed,
            "results": [asdict(result) | {"state": result.state.value} for result in self.results],
        }

    def __str__(self) -> str:
        return "\n".join(map(str, self.results))


def short_list(items: Sequence[str]) -> str:
    """Return a list for a message, cut after the first items.

    >>> short_list(["a", "b"])
    'a, b'
    """
    more = f" and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else ""
    return ", ".join(items[:MOST_NAMED]) + more


def verdict(wrong: object, state: State, message: str, remedy: str, *, fine: str) -> Findings:
    """Return the only finding of a check: `message` if something is wrong, otherwise `fine`."""
    return [(state, message, remedy) if wrong else (State.OK, fine, "")]


def message_and_remedy(error: DmError) -> tuple[str, str]:
    """Return the texts of an error as (message, remedy)."""
    return error.happened(), error.workaround()
