"""Boards and ready accelerators, shipped as data."""
