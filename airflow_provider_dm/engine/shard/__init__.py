"""DDL of merged tables, as values: the shards must agree on a DDL statement before the target executes it.

There are two levels, as in DM: the sharding group of one source's tables, and the lock across sources in the metadata
DB.
"""
