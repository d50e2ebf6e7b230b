"""Starting what runs outside this process: Spark apps and relay processes.

`dmctl` and the Airflow operators launch by this package alone, so that both mean the same. It imports neither Airflow
nor Spark: it has to be able to say what is wrong with them.
"""
