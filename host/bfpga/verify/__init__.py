"""Random accelerators and random layers: the emulator against another device, bit by bit (architecture 3.2)."""
