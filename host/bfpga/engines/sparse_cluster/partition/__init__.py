"""Balanced partition of feature maps by exchange of lines, with its threshold."""
