"""Boards: the driver on PYNQ's own classes, overlays, self-test."""
