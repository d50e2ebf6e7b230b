"""Damaged logs: every one ends in a typed error, or in rows that are exactly what its bytes say.

All cases come from fixed seeds, so that each run has the same ones; `docker/local fuzz` finds new ones. Those of the
second seed go through kernels that check every index. A case that breaks the promise is printed with the command that
runs it again, and its log is kept.
"""

from collections import Counter

import pytest

from tests.fuzz import campaign, mutate

pytestmark = pytest.mark.computes

SEEDS = ((campaign.SEED, 360, False), (campaign.SEED + 3, 120, True))
"""(seed, cases, with kernels that check every index)"""


@pytest.mark.timeout(3600)  # a hanging worker ends by its CPU limit; how long the machine takes says nothing
def test_damaged_logs_end_in_typed_errors_or_in_their_own_rows() -> None:
    counts: Counter[str] = Counter()
    for seed, cases, checked in SEEDS:
        report = campaign.run(cases, seed=seed, checked=checked)
        assert not report.failures, f"seed {seed}\n{report}"
        assert report.counts["cases"] == cases
        counts += report.counts
    print(campaign.Report(counts))
    # The run was about something: damage that must be betrayed, rows that only the damage made, and every mutator.
    assert counts["with damage that a checksum or size betrays"] > 70
    assert counts["with rows that no seed has"] > 36
    assert all(
        counts[f"damage: {one.__name__}"] > 3 for one in (*mutate.WITH_EVENTS, mutate.inside, *mutate.WITH_BYTES)
    )
