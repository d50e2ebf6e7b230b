"""Whether a task can run, asked before it does: every reason at once, each with its remedy, and nothing is changed."""
