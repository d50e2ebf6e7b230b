"""Reads a relay log for people: which rows changed, where and when, as Arrow tables. It writes nothing."""
