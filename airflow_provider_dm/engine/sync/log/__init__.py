"""A source's log as a sync reads it, from the relay or from the upstream, and the order of its locations."""
