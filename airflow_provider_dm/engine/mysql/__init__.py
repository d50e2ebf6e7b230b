"""Facts common to all MySQL-like servers: connections, identifiers, literals, GTID sets, locations."""
