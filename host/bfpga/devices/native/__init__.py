"""Layers in C++: the emulator's arithmetic compiled for this machine, with the results and counters of the engines."""
