"""The engine: plain Python that imports neither Airflow nor Spark. See docs/architecture.md for its rooms."""
