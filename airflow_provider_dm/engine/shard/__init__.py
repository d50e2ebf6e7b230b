"""DDL of merged tables, as values: the agreement of the shards that is required before it runs.

There are two levels, as in DM: the sharding group of one source's tables, and the lock across sources in the metadata
DB.
"""
