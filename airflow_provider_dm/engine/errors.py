"""What can go wrong, as values: every error says what happened, where, how to react and what a person can do.

An error is a frozen set of fields under a code. It survives pickling, so one raised in a Spark executor reaches the
driver whole. The loop asks `reaction`, never the text. Rooms define their own errors beside the code that raises
them; this module holds the base, the vocabulary and the errors that several rooms raise.

Code ranges: 1xxx configuration, 2xxx connections and servers, 3xxx binlog, 4xxx relay, 5xxx schema and rules,
6xxx sync and target, 7xxx copy and verify, 8xxx metadata DB and leases, 9xxx launching and the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import partial
from typing import Any, ClassVar, Final, dataclass_transform

LONGEST_FIELD: Final = 2000
"""Characters of one field in a message."""
MIGRATE_AGAIN: Final = "migrate in full again with another task (another name), its target tables emptied before"
"""What leads out where a task cannot go on: its name stands for what was applied, and a copy wants empty tables."""
GO_ON_BEHIND: Final = (
    "go on behind it with another task (another name, task-mode incremental, its `meta` behind that place)"
)
"""The same, where one thing in the log cannot be applied and was made by hand."""
UNFORESEEN: Final = "Look at the log of this run; if it comes again, please report it with that log."
"""The workaround for what is none of our errors."""


class Scope(Enum):
    """The side that has to be looked at."""

    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"
    INTERNAL = "internal"


class Reaction(Enum):
    """The reaction that the machine may show by itself."""

    RETRY = "retry"  # transient: the same work may succeed in a moment
    STOP = "stop"  # a person has to decide; retrying would repeat it
    FENCED = "fenced"  # somebody newer holds the generation: this process must end, not retry


@dataclass_transform(eq_default=False, field_specifiers=(field,))
@dataclass(eq=False)
class DmError(Exception):
    """Base of all errors. A subclass is a dataclass by itself: what it annotates are the fields that its message needs,
    none of them a secret; `code`, `what` and the others it only assigns. It has a docstring where `what` leaves
    something unsaid.

    `what` and `hint`, which is what a person can do, are `str.format` templates over the fields; a tuple is written as
    a list with commas, of what is very long (a GTID set with many gaps) only the beginning. None has an empty hint, or
    it overrides `workaround`. What `what` tells, which every class shows, needs no docstring: that only adds to it.
    """

    code: ClassVar[str] = "DM-0000"
    scope: ClassVar[Scope] = Scope.INTERNAL
    reaction: ClassVar[Reaction] = Reaction.STOP
    what: ClassVar[str] = "internal error"
    hint: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)

    def details(self) -> dict[str, Any]:
        """Return field name -> value, for JSON output and the metadata DB."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def happened(self) -> str:
        """Return what happened, and where."""
        return self._filled(self.what)

    def workaround(self) -> str:
        """Return what a person can do; of an error that only passes on what a child process said, what that says."""
        reported = reported_by(self)
        return self._filled(self.hint) if reported is None else reported.workaround or UNFORESEEN

    def _filled(self, template: str) -> str:
        return template.format(**{name: _said(value) for name, value in self.details().items()})

    def reacts(self) -> Reaction:
        """Return the reaction asked for; of an error that only passes on what a child process said, what that asks."""
        reported = reported_by(self)
        return self.reaction if reported is None else reported.reaction

    def message(self) -> str:
        """Return what happened and what to do, without code and scope."""
        happened, workaround = self.happened(), self.workaround()
        return happened if workaround in happened else f"{happened} {workaround}"

    def __str__(self) -> str:
        return f"[{self.code} {self.scope.value}] {self.message()}"

    def __reduce__(self) -> tuple[Any, ...]:
        # BaseException would rebuild from positional arguments only; ours are built by keyword as well.
        return (partial(type(self), **self.details()), ())


def _said(value: Any) -> Any:
    """Return a field as the message has it, cut short: who reads the end of a log must find the message's beginning."""
    if isinstance(value, tuple):
        value = ", ".join(map(str, value))
    if not isinstance(value, str) or len(value) <= LONGEST_FIELD:
        return value
    return f"{value[:LONGEST_FIELD]}… ({len(value) - LONGEST_FIELD} characters more)"


def raise_first(errors: Iterable[DmError]) -> None:
    """Raise the first of these errors, if there is one."""
    for error in errors:
        raise error


class NotSupportedYet(DmError):
    """Something that this release stops at rather than guesses. Each use is listed in docs/limits.md."""

    feature: str
    where: str
    way_out: str

    code = "DM-1900"
    what = "{feature} is not supported yet ({where})."
    hint = "{way_out}"


class InvariantBroken(DmError):
    """A law of the protocol does not hold: never repaired, always reported."""

    law: str
    found: str

    code = "DM-6900"
    what = "an invariant does not hold: {law}. Found: {found}."
    hint = "Nothing was written after this point; please report it with the log of this run."


@dataclass(frozen=True)
class ReportedError:
    """An error as one process tells it to others: its launcher, the metadata DB, whoever reads an answer.

    It is written with the keys by which DM's query-status shows one. `Reaction` is ours: whoever launched the process
    decides by it whether to start it again.
    """

    code: str
    kind: str
    scope: str
    message: str
    workaround: str
    reaction: Reaction

    @classmethod
    def of(cls, error: BaseException) -> ReportedError:
        """Return what there is to tell of an error. A foreign one gets code DM-0000; what nobody foresaw may be tried
        again, as Airflow does with any exception.
        """
        kind = type(error).__name__
        if isinstance(error, DmError):
            told = error.message(), error.workaround(), error.reacts()
            return cls(error.code, kind, error.scope.value, *told)
        return cls(DmError.code, kind, Scope.INTERNAL.value, str(error), UNFORESEEN, Reaction.RETRY)

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> ReportedError:
        """Read what `to_json` wrote, perhaps in another release: a key that is missing there is empty here."""
        return cls(
            code=str(said.get("ErrCode", "")),
            kind=str(said.get("ErrClass", "")),
            scope=str(said.get("ErrScope", "")),
            message=str(said.get("Message", "")),
            workaround=str(said.get("Workaround", "")),
            reaction=Reaction(said.get("Reaction", Reaction.STOP)),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "ErrCode": self.code,
            "ErrClass": self.kind,
            "ErrScope": self.scope,
            "Message": self.message,
            "Workaround": self.workaround,
            "Reaction": self.reaction.value,
        }

    def __str__(self) -> str:
        return f"[{self.code} {self.scope}] {self.message}"


def reported_by(error: DmError) -> ReportedError | None:
    """Return the error of a child process that this one passes on; None for most."""
    reported = getattr(error, "reported", None)
    return reported if isinstance(reported, ReportedError) else None


@dataclass(frozen=True)
class AskedAgain:
    """A `with` block that may end early by what passes by itself: that is told to `warn`, and its owner asks again."""

    warn: Callable[..., object]

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        passes = isinstance(error, DmError) and error.reaction is Reaction.RETRY
        if passes:
            self.warn("%s Asking again.", error)
        return passes


def describe(error: BaseException) -> dict[str, Any]:
    """Return an error as DM's query-status shows one (see ReportedError)."""
    return ReportedError.of(error).to_json()
