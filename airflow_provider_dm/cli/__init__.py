"""`dmctl`: migrations from the command line, without Airflow, with DM's verbs and JSON answers.

`main` is the entry point, `verbs` maps verbs to modules.
"""
