"""From a piece of the log to statements: folding, order, waves, and the tasks that write them."""
