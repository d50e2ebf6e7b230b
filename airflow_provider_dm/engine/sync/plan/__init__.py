"""What a subtask's rows mean: which tables they come from and go to, what tells them apart, and which bucket is
theirs."""
