"""Which tables a task migrates, and into what: block-allow list, routes, and the pairing of two tables' columns."""
