"""Links of task instances to pages about their work, and how task instances are named there."""
