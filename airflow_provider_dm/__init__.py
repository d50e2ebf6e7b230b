"""Airflow provider that moves MySQL and MariaDB databases into TiDB or MySQL, on Spark.

Importing this package imports nothing else: Airflow, Spark and the drivers stay out of DAG parsing.
"""

__version__ = "0.1.0"
