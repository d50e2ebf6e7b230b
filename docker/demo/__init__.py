"""The demo: two live sources, a writer that runs all the time, one DAG, and the proof that nothing is missing."""
