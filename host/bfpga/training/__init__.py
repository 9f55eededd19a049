"""Training with positions from the data of the same pass: products on the array, weights in floating point (FP R4)."""
