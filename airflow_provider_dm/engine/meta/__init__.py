"""The metadata DB: leases, runs, subtasks and relays of all tasks, shared by operators, apps, relays and users."""
