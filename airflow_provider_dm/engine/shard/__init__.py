"""DDL of merged tables: what the shards have to agree on before it may run.

Two levels, as DM has them: the sharding group of one source's tables, and the lock across sources in the metadata DB.
Neither is there yet. What is there is the door: sync brings a shard's DDL here and does as it is told.
"""
