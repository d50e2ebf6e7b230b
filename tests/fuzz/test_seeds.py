"""The undamaged logs decode to exactly what they were made from."""

from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.rows import RowChange
from tests.fuzz.corpus import TABLES, Seed, follower, seeds
from tests.fuzz.judge import judge
from tests.fuzz.subject import Reading, follow, log_files

READINGS = [Reading(), Reading(range_bytes=1, max_bytes=1, carried=True), Reading(range_bytes=300, max_bytes=600)]


@pytest.mark.parametrize("seed", seeds(), ids=lambda seed: seed.name)
def test_a_seed_has_its_expected_rows(seed: Seed, tmp_path: Path) -> None:
    data = seed.data
    for reading in READINGS:
        outcome = follow(log_files(tmp_path, [data]), TABLES, reading)
        assert outcome.error is None
        assert outcome.rows == list(seed.expected)
        assert judge([data], outcome, TABLES) is None


@pytest.mark.parametrize("seed", seeds(), ids=lambda seed: seed.name)
def test_a_seed_can_be_read_from_every_boundary_and_into_the_next_file(seed: Seed, tmp_path: Path) -> None:
    files = [seed.data, follower(seed.flavour).data]
    left: list[RowChange] = list(seed.expected)
    for start in seed.boundaries:
        outcome = follow(log_files(tmp_path, files), TABLES, Reading(), start=start)
        assert outcome.error is None
        assert outcome.rows[:-1] == left[len(left) - len(outcome.rows) + 1 :]
        assert judge(files, outcome, TABLES, start) is None
