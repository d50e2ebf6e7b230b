"""The rules of a task: block-allow list, routes, filters, and the mapping of a source table to its target table."""
