"""DDL of the log: its relevance for the task, its effect on the tables, and the decisions of users about it."""
