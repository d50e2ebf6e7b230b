"""Starting what runs outside this process: Spark apps and relay processes.

`dmctl` and the Airflow operators launch by this package alone, so that both mean the same. It imports neither Airflow
nor Spark: it has to be able to say what is wrong with them.

    preflight.py      is there a Java, and is the installed pyspark one pyspark
    workdir.py        the private directory of a run
    secrets.py        passwords into environment variables
    inputs.py         a task, its sources and its target, ready to log in
    job.py            what an app is asked to do, as a JSON file
    spark_command.py  argv and environment of spark-submit
    status.py         what the metadata DB knows, as DM's query-status shows it
    submit.py         start, listen, stop, and read the end
    relays.py         a living relay process for every source, for as long as an app runs
    supervisor.py     the apps of one task, beside its relays and watched to their ends
    relay_detached.py a relay that outlives whoever starts it
"""
