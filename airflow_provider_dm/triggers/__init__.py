"""Triggers: what a deferred sensor runs in the triggerer. Connection ids only, never secrets."""
