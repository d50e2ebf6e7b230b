"""Triggers, which run in the triggerer while a sensor or operator is deferred. They hold connection ids, no secrets."""
