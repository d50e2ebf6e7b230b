"""Reads binlogs for users: which rows changed, where and when, as Arrow tables or as pages of events."""
