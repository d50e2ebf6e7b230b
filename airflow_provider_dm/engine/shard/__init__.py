"""DDL of merged tables, as values: what the shards have to agree on before it may run.

Two levels, as DM has them: the sharding group of one source's tables, and the lock across sources in the metadata DB.
"""
