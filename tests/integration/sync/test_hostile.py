"""Syncs between servers with unusual global settings."""

import pytest

from tests.integration.sync.test_special_columns import (  # noqa: F401 (run again, on other servers)
    test_special_columns_follow_inserts_updates_and_deletes,
)
from tests.integration.sync.test_sync import (  # noqa: F401
    test_a_random_workload_is_applied,
    test_half_written_epochs_are_completed_by_the_next_run,
    test_rows_are_found_by_their_bits,
    test_values_swap_between_rows_in_one_transaction,
)

pytestmark = pytest.mark.hostile
