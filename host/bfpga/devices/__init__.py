"""Where a program runs: emulator, C simulation."""
