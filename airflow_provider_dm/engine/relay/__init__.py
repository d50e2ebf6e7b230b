"""The relay log: a source's binlog files, copied byte for byte to a local directory, and read from there."""
