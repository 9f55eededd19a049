"""From an accelerator to a bitstream: named stages, vendor tools, checks of their results.

Runs where Vivado is installed; everything up to the C simulation runs anywhere. Progress is reported by callbacks.
"""
