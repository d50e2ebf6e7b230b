"""Errors as values: every error states what happened, where, how the program reacts and what a user can do.

An error is a set of fields under a code. It survives pickling, so an error raised in a Spark executor reaches the
driver complete. Callers branch on `reaction`, never on the text. Each room defines its own errors; this module holds
the base class, the vocabulary and the errors that several rooms raise.

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
"""Maximum length of one field in a message, in characters."""
MIGRATE_AGAIN: Final = "migrate in full again with another task (another name), its target tables emptied before"
"""The remedy for a task that cannot continue: the target has a checkpoint under its old name."""
CONTINUE_AFTER: Final = (
    "continue after it with another task (another name, task-mode incremental, its `meta` after that location)"
)
"""The remedy for one event of the log that cannot be applied and whose change was made by hand."""
UNFORESEEN: Final = "Read the log of this run; if it happens again, please report it with that log."
"""The workaround of exceptions that are not a DmError."""


class Scope(Enum):
    """The side on which the cause is."""

    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"
    INTERNAL = "internal"


class Reaction(Enum):
    """The automatic reaction of the program to an error."""

    RETRY = "retry"  # transient: the same work may succeed soon
    STOP = "stop"  # a user has to decide; a retry would fail in the same way
    FENCED = "fenced"  # a newer process holds the generation: this process must end, not retry


@dataclass_transform(eq_default=False, field_specifiers=(field,))
@dataclass(eq=False)
class DmError(Exception):
    """Base class of all errors. A subclass becomes a dataclass automatically: its annotated names are the fields that
    the message needs, none of which is a secret; `code`, `scope`, `reaction`, `what` and `hint` are assigned.

    `what` (what happened) and `hint` (what a user can do) are `str.format` templates over the fields. A tuple is
    written as a comma-separated list, a very long field is cut. A class without a hint overrides `workaround`. A
    subclass has a docstring only if it adds something to `what`. A class that passes on the error of a child process
    has it in the field `reported`, and no code.
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
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def happened(self) -> str:
        """Return what happened and where."""
        return self._filled(self.what)

    def workaround(self) -> str:
        """Return what a user can do. For an error that a child process reported, return that process's text."""
        reported = reported_by(self)
        return self._filled(self.hint) if reported is None else reported.workaround or UNFORESEEN

    def _filled(self, template: str) -> str:
        return template.format(**{name: _field_text(value) for name, value in self.details().items()})

    def reacts(self) -> Reaction:
        """Return the reaction. For an error that a child process reported, return the reaction that it reported."""
        reported = reported_by(self)
        return self.reaction if reported is None else reported.reaction

    def message(self) -> str:
        """Return what happened and what to do, without code and scope."""
        happened, workaround = self.happened(), self.workaround()
        return happened if workaround in happened else f"{happened} {workaround}"

    def __str__(self) -> str:
        return str(ReportedError.of(self))

    def __reduce__(self) -> tuple[Any, ...]:
        # BaseException.__reduce__ passes positional arguments only; these classes are constructed by keyword as well.
        return (partial(type(self), **self.details()), ())


def _field_text(value: Any) -> Any:
    """Return a field's text for the message, cut to LONGEST_FIELD, so that the end of a log shows a whole message."""
    if isinstance(value, tuple):
        value = ", ".join(map(str, value))
    if not isinstance(value, str) or len(value) <= LONGEST_FIELD:
        return value
    return f"{value[:LONGEST_FIELD]}… ({len(value) - LONGEST_FIELD} characters more)"


def raise_first(errors: Iterable[DmError]) -> None:
    """Raise the first of these errors, if there is any."""
    for error in errors:
        raise error


class UpstreamError(DmError):
    """Base of errors whose cause is on the side of the source."""

    scope = Scope.UPSTREAM


class DownstreamError(DmError):
    """Base of errors whose cause is on the side of the target."""

    scope = Scope.DOWNSTREAM


class DescribedError(DmError):
    """Base of errors with many causes: the raiser describes what was found and what to do."""

    found: str
    remedy: str

    what = "{found}"
    hint = "{remedy}"


class NotSupportedYet(DmError):
    """Something that this release refuses instead of guessing. Each use is listed in docs/limits.md."""

    feature: str
    where: str
    remedy: str

    code = "DM-1900"
    what = "{feature} is not supported yet ({where})."
    hint = "{remedy}"


class InvalidInput(DescribedError):
    """A file, an argument, an option or a setting that cannot be used, or a request that does not fit the task."""

    code = "DM-1002"


class NotInstalled(DescribedError):
    """A program or package that this machine needs is missing, too old or damaged."""

    code = "DM-9001"


class InvariantBroken(DmError):
    """A rule of the protocol does not hold. The program never repairs this; it stops."""

    invariant: str
    found: str

    code = "DM-6900"
    what = "an invariant does not hold: {invariant}. Found: {found}."
    hint = "Nothing was written after this point; please report it with the log of this run."


@dataclass(frozen=True)
class ReportedError:
    """An error as one process reports it to another: to its launcher, the metadata DB or a client.

    Its JSON has the keys of an error in DM's query-status. `Reaction` is an addition: the launcher decides by it
    whether to start the process again.
    """

    code: str
    kind: str
    scope: str
    message: str
    workaround: str
    reaction: Reaction

    @classmethod
    def of(cls, error: BaseException) -> ReportedError:
        """Return the report of an error. One that passes on a child's has the child's code, class and scope. An
        exception that is not a DmError has code DM-0000 and reaction RETRY, as Airflow retries any exception.
        """
        kind = type(error).__name__
        if isinstance(error, DmError):
            report = error.message(), error.workaround(), error.reacts()
            child = reported_by(error)
            if child is not None:
                return cls(child.code, child.kind, child.scope, *report)
            return cls(error.code, kind, error.scope.value, *report)
        return cls(DmError.code, kind, Scope.INTERNAL.value, str(error), UNFORESEEN, Reaction.RETRY)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> ReportedError:
        """Read the result of `to_json`, perhaps of another release: a missing key becomes an empty text."""
        return cls(
            code=str(document.get("ErrCode", "")),
            kind=str(document.get("ErrClass", "")),
            scope=str(document.get("ErrScope", "")),
            message=str(document.get("Message", "")),
            workaround=str(document.get("Workaround", "")),
            reaction=Reaction(document.get("Reaction", Reaction.STOP)),
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
    """Return the error of a child process that this error passes on; None if it passes on none."""
    reported = getattr(error, "reported", None)
    return reported if isinstance(reported, ReportedError) else None


@dataclass(frozen=True)
class TransientErrorsLogged:
    """A `with` block that ends at a transient error, which is logged with `warn`; the caller polls again."""

    warn: Callable[..., object]

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        is_transient = isinstance(error, DmError) and error.reaction is Reaction.RETRY
        if is_transient:
            self.warn("%s Retrying.", error)
        return is_transient


def describe(error: BaseException) -> dict[str, Any]:
    """Return an error as DM's query-status shows it (see ReportedError)."""
    return ReportedError.of(error).to_json()
