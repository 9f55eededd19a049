"""Synthesis without a vendor's tool: intervals, clocks and sizes read from the code itself."""
