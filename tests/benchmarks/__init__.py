"""Benchmarks: what the engine does beside the best tool that exists for the same work, in one session.

`docker/local bench NAME [--json]` runs `python -m tests.benchmarks.NAME`. They are never asserted by the test command:
a machine that others use gives no figure worth a red test. docs/benchmarks.md says how to read them.
"""
