"""Comparison of the target with its sources: every row, by sums of hashes; differing rows are found by bisection."""
