"""Thousands of damaged logs: every one ends in a typed error, or in rows that are exactly what its bytes say.

Most cases come from a fixed seed, so that a run can be compared with the last one; the others from a seed that is made
anew and printed (`DM_FUZZ_SEED` sets it), and go through kernels that check every index. A case that breaks the promise
is printed with the command that runs it again, and its log is kept.
"""

import os
import secrets
from collections import Counter

import pytest

from tests.fuzz import campaign, mutate

pytestmark = pytest.mark.computes

FIXED, FRESH = 2_500, 1_000


@pytest.mark.timeout(3600)  # a hanging worker ends by its CPU limit; how long the machine takes says nothing
def test_damaged_logs_end_in_typed_errors_or_in_what_they_say() -> None:
    fresh = int(os.environ.get("DM_FUZZ_SEED") or secrets.randbelow(1 << 32))
    print(f"seeds {campaign.SEED} and {fresh}")
    counts: Counter[str] = Counter()
    for seed, cases, checked in ((campaign.SEED, FIXED, False), (fresh, FRESH, True)):
        report = campaign.run(cases, seed=seed, checked=checked)
        assert not report.failures, f"seed {seed}\n{report}"
        assert report.counts["cases"] == cases
        counts += report.counts
    print(campaign.Report(counts))
    # The run was about something: damage that must be betrayed, rows that only the damage made, and every mutator.
    assert counts["with damage that a checksum or size betrays"] > 525
    assert counts["with rows that no seed has"] > 262
    assert all(
        counts[f"damage: {one.__name__}"] > 30 for one in (*mutate.WITH_EVENTS, mutate.inside, *mutate.WITH_BYTES)
    )
