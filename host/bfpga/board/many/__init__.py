"""Several boards that share samples, each in a process of its own (docs/scale.md)."""
