"""The place where one source's sync stands in its log, and those that it must not pass unseen."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_dm.engine.mysql.location import Location, has_passed
from airflow_provider_dm.engine.target.frontier import Step
from airflow_provider_dm.engine.target.identity import Fence


@dataclass
class Position:
    """The position of one sync. Mutable.

    `applied` is where all buckets stand; `here`, at or behind it, is where reading goes on (there may be events in
    between that change nothing). `edge`: see frontier rule 1; None once it is reached. `goal` None: no end.
    `catch_up_until`: up to there the log overlaps a load; None: it does not. `furthest`: where the last epoch or
    statement ends that was begun."""

    fence: Fence
    applied: Location
    here: Location
    edge: Location | None
    goal: Location | None
    catch_up_until: Location | None
    furthest: Location | None = None

    @property
    def at_goal(self) -> bool:
        """True if nothing is left to do."""
        return self.edge is None and self.goal is not None and has_passed(self.here, self.goal)

    @property
    def catching_up(self) -> bool:
        """True if what comes next overlaps a load."""
        return self.catches_up_at(self.applied)

    def catches_up_at(self, place: Location) -> bool:
        """Tell whether what lies behind `place` overlaps a load."""
        return self.catch_up_until is not None and not has_passed(place, self.catch_up_until)

    def step(self, hi: Location) -> Step:
        """Return the step that leads from here to `hi`."""
        return Step(self.fence, self.applied.sort_key, hi.sort_key)
