"""A thousand crash states, and a relay that continues correctly after each of them.

There are four times as many: each run takes every fourth, by lot, so that all are met in time. `DM_CRASH_PART=0` (to 3)
takes these; a failure says which it had.
"""

import itertools
import os
import random
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from airflow_provider_dm.engine.mysql.endpoint import Flavour
from tests.crash.disk import PowerCut, State, kills, power_cuts
from tests.crash.life import Story, recorded, survive

pytestmark = pytest.mark.computes

STATES = 1000
STORIES = [(Flavour.MARIADB, True), (Flavour.MYSQL, True), (Flavour.MARIADB, False), (Flavour.MYSQL, False)]
"""Both servers, with and without checksums in their binlogs."""
EACH = STATES // len(STORIES)
PARTS = 4


def states_of(story: Story, chance: random.Random, part: int) -> list[State]:
    """Every death by a kill, and three power cuts at every moment: of these, each of this part."""
    return [*kills(story.operations), *power_cuts(story.operations, chance, each=3)][part::PARTS]


def lived_on(folder: Path, states: Sequence[State], survive: Callable[[Path, State], object]) -> Iterator[str]:
    """Yield what went wrong, state after state."""
    for number, state in enumerate(states):
        top = folder / str(number)
        top.mkdir()
        try:
            survive(top, state)
        except Exception as error:  # noqa: BLE001 - every error is reported
            yield f"{state.when}: {type(error).__name__}: {error}"
        shutil.rmtree(top)


@pytest.mark.parametrize(("flavour", "checksum"), STORIES)
def test_the_relay_continues_after_any_crash_state(memory: Path, flavour: Flavour, checksum: bool) -> None:
    """No state ends in an error: nothing is missing that the upstream could not send again."""
    (memory / "recorded").mkdir()
    story, chance = recorded(memory / "recorded", flavour, seed=1, checksum=checksum), random.Random(1)
    part = int(os.environ.get("DM_CRASH_PART") or secrets.randbelow(PARTS))
    states = states_of(story, chance, part)
    assert len(states) >= EACH
    wrong = lived_on(memory, states, lambda top, state: survive(top, story, state, chance))
    assert list(itertools.islice(wrong, 5)) == [], f"DM_CRASH_PART={part}"


@pytest.mark.parametrize(("flavour", "checksum"), STORIES)
def test_everything_is_on_disk_after_close(memory: Path, flavour: Flavour, checksum: bool) -> None:
    """A power cut takes nothing of what a relay has saved: no byte, no name, no folder."""
    story, disk = recorded(memory, flavour, seed=1, checksum=checksum), PowerCut()
    for operation in story.operations:
        disk.apply(operation)
    there, kept = disk.kernel.content(), disk.platter.content()
    there.pop("relay/purge.lock")  # its content is for a message only
    assert {path for path in there if kept.get(path, b"missing") != there[path]} == set()
