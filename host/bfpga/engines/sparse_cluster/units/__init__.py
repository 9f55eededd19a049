"""Variants A to E of the cluster as specified, unit by unit."""
