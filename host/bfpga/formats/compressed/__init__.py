"""Compressed feature maps and kernels."""
