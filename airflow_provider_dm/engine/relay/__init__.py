"""The relay log: a source's binlog files, pulled byte for byte into a local directory, and read from there."""
