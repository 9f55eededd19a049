"""The zero-skip engine: every non-zero weight by itself on a tile of outputs."""
