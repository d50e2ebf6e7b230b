"""DDL that the shards of a merged table make together: who is held, whose turn it is, and the re-sync of held rows."""
