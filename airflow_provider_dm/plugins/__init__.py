"""The page "DM" in Airflow's UI: tasks, sources and locks as the metadata DB has them, and actions on them.

dm_plugin   the plugin: where the page is mounted, and where Airflow shows it
app         the web app: page, assets, JSON API; every route needs a login
access      who may read, who may act, and that a request comes from the page
tabs        what an address of the page asks for: a task, a source, or the tab of a DAG run or a task instance
documents   the JSON that the page reads: the documents of `dmctl`, with runs and a verdict beside them
verdict     the state of one source of a task, as one word and one sentence
static/     the page itself: HTML, CSS and ES modules, as they are served
"""
