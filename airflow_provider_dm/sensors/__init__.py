"""Sensors that wait, by poking or deferred, for a state in the metadata DB."""
