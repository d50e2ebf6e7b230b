"""The full copy of tables without a lock: where it starts, in what pieces, and how each piece is written once."""
