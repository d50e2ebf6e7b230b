"""Programs for spark-submit: the only place that imports PySpark. They never import Airflow."""
