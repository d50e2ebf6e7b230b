"""The engine: plain Python that knows neither Airflow nor Spark. See docs/architecture.md for its rooms."""
