"""Where a sync begins: by `meta`, by DM's checkpoint, or where it stood; its first plan, and its goal."""
