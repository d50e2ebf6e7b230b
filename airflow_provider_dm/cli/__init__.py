"""`dmctl`: migrations from the command line, without Airflow, with DM's verbs and JSON answers.

main.py          arguments, dispatch, exit codes
verbs.py         the verbs, and where each is
output.py        what is printed: JSON for programs, text for people
inputs.py        files and passwords into values
run.py           `run`: the whole task in the foreground
migration.py     the phases of `run`, and when a run counts as verified
app_phase.py     one Spark app watched to its end
binlog.py        what shall happen at a DDL statement of the log
binlog_schema.py the tables by which a task reads the log
check_task.py, query_status.py, relay.py, meta.py, unsupported_verbs.py
"""
