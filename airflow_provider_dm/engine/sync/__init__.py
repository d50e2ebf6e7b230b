"""From binlog to target: fold changes, order what conflicts, write each piece of the log exactly once."""
