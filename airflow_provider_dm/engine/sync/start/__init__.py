"""The start of a sync: by `meta`, by DM's checkpoint, or at its own checkpoint; its first plan, and its goal."""
