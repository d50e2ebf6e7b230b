"""Safe mode: where rows may be otherwise than the log says, and how they are written over and counted."""
