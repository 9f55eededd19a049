"""The kinds of array that a kernel may have: their numbers, and what else of a kernel follows from them."""
