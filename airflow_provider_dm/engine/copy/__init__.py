"""The full copy of tables in rounds: snapshots under one momentary lock, and pages of rows, each written once."""
