"""The full copy of tables in rounds: snapshots opened under one momentary lock, pages, and how each is written once."""
