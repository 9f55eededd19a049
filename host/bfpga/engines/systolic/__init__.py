"""The systolic array: weights as its rows hold them, taps from adjacent columns, units that shift."""
