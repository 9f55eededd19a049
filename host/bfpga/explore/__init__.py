"""Which accelerator for a network on a board: a search for the accelerators that no other one beats."""
