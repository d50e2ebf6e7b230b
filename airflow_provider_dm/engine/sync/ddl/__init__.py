"""DDL of the log: what it is to the task, what it makes of its tables, and what a person wants done about it."""
