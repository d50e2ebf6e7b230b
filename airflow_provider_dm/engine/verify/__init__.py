"""Whether the target holds the rows of its sources: every row, compared by sums of hashes, found by bisection."""
