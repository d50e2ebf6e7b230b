"""The promise, checked: given the bytes of a log and what the engine made of them, what is wrong with that?

Five rules, over every byte of the log from where reading began:

1. A *finished* file (another one follows) with an event that is torn or whose checksum is wrong ends in a DmError. A
   file that still grows may also be waited for, before that event. What lies before the start of reading is not
   read, apart from the format description.
2. The rows of a planned range are those of its story (oracle.py), all of them unless an error ended the range; none is
   from the damaged event or from after it; a range whose story has a Refusal ends in an error.
3. A statement is one that the log holds, and its transaction's rows are not forgotten.
4. What is planned into no range holds no complete transaction: no rows get lost between plans or at the end of a file.
5. An error says where, as FILE:POSITION, or FILE:POSITION+OFFSET inside a compressed transaction (a file that is no
   binlog: the file; a column type: the column).
"""

import re
from collections.abc import Sequence
from typing import Final

from airflow_provider_dm.engine.binlog.errors import UnsupportedFormat
from airflow_provider_dm.engine.binlog.planned import DdlStatement
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.schema.errors import UnsupportedColumnType
from airflow_provider_dm.engine.schema.model import Table
from tests.fuzz import anatomy
from tests.fuzz.anatomy import Malformed
from tests.fuzz.oracle import ExpectedRows, Refusal, Statement, Story, differences
from tests.fuzz.subject import FIRST, SECOND, Decoded, Outcome, Step
from tests.fuzz.writer import STATUS

_PLACE: Final = re.compile(r"mysql-bin\.\d{6}:\d+(\+\d+)?")


def judge(files: Sequence[bytes], outcome: Outcome, tables: Sequence[Table], start: int = 4) -> str | None:
    """Return what breaks the promise, as text; None: nothing."""
    return _Judge(files, outcome, tables, start).verdict()


def _is(ddl: DdlStatement, statement: Statement) -> bool:
    """Return True if the engine's statement is that of the log. Sessions in other charsets have tests of their own."""
    if ddl.undecoded is not None:
        return ddl.undecoded == statement.sql
    if statement.variables not in (b"", STATUS):
        return True
    return ddl.sql == statement.sql.decode("utf-8", "replace")


class _Wrong(Exception):
    """The text is the verdict."""


class _Judge:
    def __init__(self, files: Sequence[bytes], outcome: Outcome, tables: Sequence[Table], start: int) -> None:
        self.data = dict(zip((FIRST, SECOND), files, strict=False))
        self.outcome = outcome
        self.tables = {(t.name.schema.encode(), t.name.table.encode()): (i, t) for i, t in enumerate(tables)}
        # After what is published nothing is read.
        self.damage = anatomy.first_damage(files[0], start) if start <= len(files[0]) else None
        self.here = (FIRST, start)
        self.trailers: dict[str, int] = {}
        for name, data in self.data.items():
            try:
                self.trailers[name] = anatomy.format_of(data).trailer
            except Malformed:
                self.trailers[name] = 0

    def verdict(self) -> str | None:
        try:
            for step in self.outcome.steps:
                self._step(step)
            if self.outcome.error is None:
                self._end()
            else:
                self._located(self.outcome.error)
        except _Wrong as wrong:
            return str(wrong)
        return None

    def _step(self, step: Step) -> None:
        if step.ddl is not None:
            self._statement(step)
        else:
            if not step.ranges:
                raise _Wrong(f"an epoch without ranges at {step.lo}")
            self._ranges(step.ranges)
        if not any(decoded.error for decoded in step.ranges):
            self._nothing_until(step.hi.file, step.hi.position)

    def _story(self, file: str, start: int, end: int, *, deep: bool = True) -> Story:
        return Story(self.tables, deep).walk(self.data[file], self.trailers[file], start, end)

    def _ranges(self, ranges: Sequence[Decoded]) -> Story:
        """Rule 2, of ranges planned together. A range may end at a seam inside a transaction; the last one may not."""
        story, inside = Story(self.tables), False
        for decoded in ranges:
            file, start, end = decoded.range.file, decoded.range.start, decoded.range.end
            if inside != decoded.range.inside or (inside and self.here != (file, start)):
                raise _Wrong(f"ranges that do not join at {file}:{start}")
            self._nothing_until(file, start)
            inside = bool(decoded.range.closes)
            before = len(story.expected)
            story.walk(self.data[file], self.trailers[file], start, end, ends_inside=inside)
            self._compare(decoded, story.expected[before:], story.refusal)
            self.here = (file, end)
        if inside and decoded.error is None:
            raise _Wrong(f"an epoch that ends inside a transaction at {self.here}")
        return story

    def _compare(self, decoded: Decoded, expected: Sequence[ExpectedRows], refusal: Refusal | None) -> None:
        file, start, end = decoded.range.file, decoded.range.start, decoded.range.end
        whole = decoded.error is None
        if whole:
            self._must_be_sound(file, end)
            if refusal:
                raise _Wrong(f"accepted: {refusal.reason} at {file}:{refusal.position}")
        sound = [event for event in expected if not self._damaged(file, event.end)]
        problem = differences(sound, decoded.rows, whole=whole)
        if problem:
            raise _Wrong(f"in {file}:{start}-{end}, {problem}")

    def _damaged(self, file: str, end: int) -> bool:
        return file == FIRST and self.damage is not None and end > self.damage

    def _must_be_sound(self, file: str, end: int) -> None:
        if self._damaged(file, end):
            raise _Wrong(f"the damage at {file}:{self.damage} was not noticed")

    def _statement(self, step: Step) -> None:
        """Rule 3."""
        ddl = step.ddl
        assert ddl is not None
        self._nothing_until(ddl.at.file, ddl.at.position)
        if step.ranges:
            story = self._ranges(step.ranges)
        else:
            story = self._story(ddl.at.file, ddl.at.position, ddl.end.position)
            self._must_be_sound(ddl.at.file, ddl.end.position)
            if story.expected or story.refusal:
                raise _Wrong(f"the statement at {ddl.at} with {len(story.expected)} rows events, {story.refusal}")
        if any(decoded.error for decoded in step.ranges):
            return  # and the story is not read to its end
        if not any(_is(ddl, statement) for statement in story.statements):
            raise _Wrong(f"a statement that the log does not hold at {ddl.at}: {ddl.sql!r:.200}")
        self.here = (ddl.end.file, ddl.end.position)

    def _nothing_until(self, file: str, position: int) -> None:
        """Rule 4, between plans and across the end of a file."""
        if self.here[0] != file:
            self._nothing(self.here[0], self.here[1], len(self.data[self.here[0]]), finished=True)
            self.here = (file, 4)
        self._nothing(file, self.here[1], position, finished=False)
        self.here = (file, position)

    def _nothing(self, file: str, start: int, end: int, *, finished: bool) -> None:
        self._must_be_sound(file, end)
        story = self._story(file, start, end, deep=False)
        dropped = finished and story.refusal is not None and story.refusal.unfinished
        if story.transactions or (story.refusal and not dropped):
            raise _Wrong(f"passed over at {file}:{start}-{end}: {story.transactions} transactions, {story.refusal}")

    def _end(self) -> None:
        """Rules 1 and 4: reading ended without an error."""
        at = self.outcome.at
        assert at is not None
        last = list(self.data)[-1]
        if at.file != last:
            raise _Wrong(f"reading ended at {at}, before the last file")
        self._nothing_until(at.file, at.position)
        story = self._story(last, at.position, len(self.data[last]), deep=False)
        if story.transactions or (story.refusal and not self._waits_for(story, last)):
            raise _Wrong(f"reading ended at {at} in front of {story.transactions} transactions, {story.refusal}")

    def _located(self, error: DmError) -> None:
        """Rule 5."""
        place = str(getattr(error, "at", ""))
        known = _PLACE.fullmatch(place) or (isinstance(error, UnsupportedFormat) and place in self.data)
        if not known and not isinstance(error, UnsupportedColumnType):
            raise _Wrong(f"an error that names no location: {error}")

    def _waits_for(self, story: Story, file: str) -> bool:
        """A growing file may end inside a transaction or an event."""
        assert story.refusal is not None
        return story.refusal.unfinished or story.refusal.torn
