"""The binary log: events, where transactions begin and end, and rows. Bytes in, values out; no connection, no SQL."""
