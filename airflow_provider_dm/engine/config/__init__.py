"""Configuration as frozen values: DM's task.yaml and source.yaml, and the job that one Spark app runs."""
