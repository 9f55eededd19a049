"""What the process `rows` computes. No kernel has it yet: numbers are in ``contract/rows.py``."""
