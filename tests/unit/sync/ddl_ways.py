"""The settings of a history in the model of DDL: mode, form of keys, tables of the target, rule of safe mode."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

MODES: Final[dict[str, dict[str, object]]] = {
    "folded": {},
    "folded, row by row": {"worker-count": 1, "batch": 1, "multiple-rows": False},
    "folded, by many": {"worker-count": 8, "batch": 2},
    "every change": {"compact": False},
    "every change, row by row": {"compact": False, "batch": 1, "multiple-rows": False},
    "whole transactions": {"apply": "transactional"},
    "every change of whole transactions": {"apply": "transactional", "compact": False, "batch": 3},
}
"""DM's keys of a syncer, and ours."""


class TableSql(NamedTuple):
    """The keys in CREATE TABLE: over columns besides `id`, also those that DDL changes, and the end of the list."""

    id: str = "id int NOT NULL"
    beside: str = ""
    key: str = ""


class Form(Enum):
    """The form of a table's key."""

    KEYLESS = TableSql()
    SINGLE = TableSql(key=", PRIMARY KEY (id)")
    COMPOSITE = TableSql(beside=", j int NOT NULL", key=", PRIMARY KEY (id, j)")
    UNIQUE = TableSql(beside=", u int", key=", PRIMARY KEY (id), UNIQUE KEY u (u)")
    """Values of `u` change their rows."""
    NULLABLE = TableSql(beside=", u int", key=", UNIQUE KEY u (u)")
    TEXT = TableSql("id varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL", key=", PRIMARY KEY (id)")
    """Keys of which two may be one to the target."""


class Target(Enum):
    """What the target's tables have otherwise than the source's."""

    ALIKE = "nothing"
    EXTRA = "a column more"
    KEYS = "other keys"


COLLIDING: Final = (Form.SINGLE, Form.COMPOSITE, Form.UNIQUE, Form.TEXT)
"""What a merged table is like whose rows can be written over."""
OTHER_KEYS: Final = {
    Form.KEYLESS: ("ADD UNIQUE KEY tk (id)",),
    Form.COMPOSITE: ("DROP PRIMARY KEY", "ADD PRIMARY KEY (j, id)"),
    Form.UNIQUE: ("DROP KEY u",),
}
EXTRA_COLUMN: Final = "ADD COLUMN extra int DEFAULT 7"


class Safe(Enum):
    """The reason why rows of the target may differ from the log."""

    OFF = "none"
    EXIT = "a past that is not ours, up to its exit point"
    PAST = "a past that is not ours, for some log time, and not before the place where the log ended"
    ALWAYS = "safe-mode: true"
    ALWAYS_PAST = "safe-mode: true, behind a past that is not ours"

    @property
    def always(self) -> bool:
        """The user wants it so."""
        return self in (Safe.ALWAYS, Safe.ALWAYS_PAST)

    @property
    def past(self) -> bool:
        """The log begins before another tool filled the target, and the end of the overlap is known."""
        return self in (Safe.EXIT, Safe.PAST, Safe.ALWAYS_PAST)

    @property
    def of_others(self) -> bool:
        """Another tool has filled the target."""
        return self.past or self is Safe.ALWAYS


@dataclass(frozen=True)
class Way:
    """A way to play. `later`: the mode of runs that come after the first, when the user has changed it meanwhile.

    `collide`: shards of the merged table keep to unique keys of their own only, and write over each other's rows.
    """

    mode: str = "folded"
    later: str = "folded"
    form: Form = Form.SINGLE
    target: Target = Target.ALIKE
    safe: Safe = Safe.OFF
    collide: bool = False

    @classmethod
    def any(cls, seed: int) -> Way:
        """Choose one: neighbouring seeds have other modes, forms and rules, and 420 of them all together."""
        rng = random.Random(f"way {seed}")
        modes, forms = list(MODES), list(Form)
        mode, form = modes[seed % len(modes)], forms[seed // len(modes) % len(forms)]
        safe = list(Safe)[seed // len(modes) // len(forms) % len(Safe)]
        later = rng.choice(modes) if rng.random() < 0.2 else mode
        target = rng.choice([Target.ALIKE, *Target])
        again = seed // (len(modes) * len(forms) * len(Safe))
        return cls(mode, later, form, target, safe, collide=safe.always and again % 2 == 1)

    @classmethod
    def usual(cls, seed: int) -> Way:
        """Choose one in which nothing is special."""
        return cls(form=random.Random(f"form {seed}").choice([Form.KEYLESS, Form.SINGLE]))

    @property
    def altered(self) -> tuple[str, ...]:
        """What the target's tables are altered by before all begins."""
        if self.target is Target.EXTRA:
            return (EXTRA_COLUMN,)
        keyless_past = self.form is Form.KEYLESS and self.safe.of_others  # the owner of such a row would be unknown
        return () if self.target is Target.ALIKE or keyless_past else OTHER_KEYS.get(self.form, ())
