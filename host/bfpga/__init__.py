"""The package of the Python side."""
