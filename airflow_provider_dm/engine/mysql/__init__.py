"""What is true of every MySQL-like server: connections, identifiers, literals, GTID sets, locations."""
