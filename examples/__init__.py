"""Notebooks and the networks they run; PYNQ copies them with `pynq get-notebooks bfpga`."""
