"""Sensors: wait, by poking or deferred, for something of the engine to become true."""
