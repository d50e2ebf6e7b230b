"""Random values of every type and charset, from a source through both of our paths to a target, as servers tell.

`python -m tests.exactness --cells 5000000` goes on until so many cells were compared; the test command does the same
for some fifty thousand (tests/integration/binlog/test_exactness.py). What is compared, and how, stands in `journey`."""
