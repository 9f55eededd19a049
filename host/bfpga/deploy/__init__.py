"""From this machine to a board: what a board needs, how it gets there, and the self-test once it is there."""
