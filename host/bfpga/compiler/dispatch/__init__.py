"""Which engine computes which layer."""
