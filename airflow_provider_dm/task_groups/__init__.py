"""Task groups: several operators that belong together."""
