"""Mixed precision: which layers of a network need finer numbers on an accelerator, and what that costs in cycles."""
