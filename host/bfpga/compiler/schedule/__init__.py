"""Layers -> kernel operations: memory, strips, weights."""
