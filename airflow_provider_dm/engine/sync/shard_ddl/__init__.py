"""DDL that the shards of a merged table execute together: the held-back shards, their locks, and the re-sync of
held-back rows."""
