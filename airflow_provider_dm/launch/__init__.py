"""Starts work outside of this process: Spark apps and relay processes.

`dmctl` and the Airflow operators both launch through this package, so that both behave alike. It imports neither
Airflow nor Spark, because it has to report problems of both.
"""
