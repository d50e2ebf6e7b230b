"""One file for each subject of checks: a check is a function from facts to findings with their remedies."""
