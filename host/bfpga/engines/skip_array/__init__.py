"""The skip array, which multiplies by stored non-zero weights: dealing, entries, sums, clocks."""
