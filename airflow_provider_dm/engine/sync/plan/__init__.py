"""The meaning of a subtask's rows: their source and target tables, their identity, and their buckets."""
