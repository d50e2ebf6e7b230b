"""`dmctl`: migrations from the command line, without Airflow, with DM's verbs and JSON answers.

`main` begins, `verbs` says where each verb is.
"""
