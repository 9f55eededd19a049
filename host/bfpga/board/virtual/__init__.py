"""A PYNQ board in software: memory, DMA, interrupt controller and compiled kernels, wired from a hardware handoff."""
