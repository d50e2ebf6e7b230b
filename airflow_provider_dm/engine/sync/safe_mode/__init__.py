"""Safe mode: where the target's rows may differ from the log, and how they are overwritten and counted."""
