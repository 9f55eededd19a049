"""Floating point layers -> integers, exponents and formats."""
