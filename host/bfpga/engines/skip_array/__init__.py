"""The skip array, which multiplies by stored non-zero weights: assignment, entries, sums, cycles."""
