"""What a program costs on an accelerator, and what limits it."""
