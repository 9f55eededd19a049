"""Operators -> layers of the array and operators of the host."""
