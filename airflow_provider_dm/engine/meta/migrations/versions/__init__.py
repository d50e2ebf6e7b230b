"""One file for each revision, numbered. A revision names its own columns: tables.py shows only the newest state."""
