"""What the process `rows` computes; its numbers are in ``contract/rows.py``."""
