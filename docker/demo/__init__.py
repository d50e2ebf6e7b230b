"""The demo: two live sources, a writer that never rests, one DAG, and the proof that nothing is missing."""
