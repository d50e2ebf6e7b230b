"""Checks whether a task can run, before it runs: all reasons at once, each with its remedy. Nothing is changed."""
