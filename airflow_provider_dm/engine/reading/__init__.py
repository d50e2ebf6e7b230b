"""Reading tables from a server: what exists, how tables are cut into chunks, and pages of rows as raw bytes.

Used by copy, verify and precheck. Nothing in this room writes.
"""
