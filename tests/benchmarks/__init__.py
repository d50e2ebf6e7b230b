"""Benchmarks: the engine beside the best existing tool for the same work, in one session.

`docker/local bench NAME [--json]` runs `python -m tests.benchmarks.NAME`. They are never asserted by the test command:
figures of a shared machine vary too much for a test to fail by them. docs/benchmarks.md says how to read them.
"""
