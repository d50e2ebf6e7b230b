"""Random values of every type and charset, from a source by both paths of the engine to a target, compared by SQL.

`python -m tests.exactness --cells 5000000` runs until so many cells were compared; the test command does the same
for some fifty thousand (tests/integration/binlog/test_exactness.py). `journey` describes the comparison."""
