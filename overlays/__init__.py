"""Overlays of the ready accelerators: manifest, hardware handoff and, once built, bitstream."""
