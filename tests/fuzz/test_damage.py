"""The mutators: damage that is not repaired is detectable, damage that is repaired is not."""

from random import Random

import pytest

from tests.fuzz import anatomy, codes, mutate
from tests.fuzz.cases import BY_NAME
from tests.fuzz.corpus import Seed, seeds
from tests.fuzz.writer import Log

TRIES = 120
WITH_CHECKSUMS = [seed for seed in seeds() if seed.log.checksum]


def events_in(data: bytes) -> list[bytes]:
    """Each event's bytes, without the bit that no checksum covers."""
    found = []
    for span in anatomy.split(data, 4):
        event = bytearray(data[span.position : span.end])
        if span.code == codes.FORMAT:
            event[17] &= ~anatomy.IN_USE
        found.append(bytes(event))
    return found


@pytest.mark.parametrize("seed", WITH_CHECKSUMS, ids=lambda seed: seed.name)
def test_raw_damage_leaves_an_event_that_is_not_what_its_checksum_says(seed: Seed) -> None:
    """Or it leaves only complete events of the log, which is then shorter but correct."""
    dice = Random(seed.name)
    whole = set(events_in(seed.data))
    betrayed = 0
    for _ in range(TRIES):
        data = dice.choice(mutate.WITH_BYTES)(dice, seed.data, seed.spans)
        if data == seed.data:
            continue
        if anatomy.first_damage(data) is None:
            assert whole.issuperset(events_in(data))
        else:
            betrayed += 1
    assert betrayed > TRIES * 0.8


@pytest.mark.parametrize("mutator", [*dict.fromkeys(mutate.WITH_EVENTS), mutate.inside], ids=lambda one: one.__name__)
def test_repaired_damage_leaves_sound_events(mutator: mutate.WithEvents) -> None:
    dice = Random(mutator.__name__)
    changed = 0
    for seed in dice.choices(WITH_CHECKSUMS, k=TRIES):
        data = Log(tuple(mutator(dice, list(seed.log.events), BY_NAME)), True).data()
        changed += data != seed.data
        format_is_whole = data[: seed.boundaries[1]] == seed.data[: seed.boundaries[1]]
        assert not format_is_whole or anatomy.first_damage(data) is None
    assert changed > (TRIES // 30 if mutator is mutate.inside else TRIES // 3)


def test_resealing_repairs_raw_damage() -> None:
    seed = WITH_CHECKSUMS[0]
    place = seed.spans[3].position + 25
    data = bytearray(seed.data)
    data[place] ^= 1
    assert anatomy.first_damage(bytes(data)) == seed.spans[3].position
    assert anatomy.first_damage(mutate.repaired(bytes(data))) is None
