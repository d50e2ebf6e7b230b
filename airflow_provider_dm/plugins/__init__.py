"""The page "DM" in Airflow's UI: tasks, sources and locks of the metadata DB, and actions on them.

dm_plugin   the plugin: the paths of the page, and the places at which Airflow shows it
app         the web app: page, assets, JSON API; every route needs a login
access      permissions to read and to act, and the check that a request comes from the page
tabs        the tasks and sources that the page shows, by its address
documents   the JSON that the page reads: the documents of `dmctl`, with runs and a verdict beside them
verdict     the state of one source of a task, as one word and one sentence
static/     the files of the page: HTML, CSS and ES modules
"""
