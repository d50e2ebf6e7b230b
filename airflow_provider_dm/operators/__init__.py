"""Operators, named after what they do. Importing one imports neither Spark nor Arrow nor numba."""
