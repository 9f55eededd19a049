"""Pruning: which weights of a network become zero, how much each layer loses by it, and learning to do without them."""
