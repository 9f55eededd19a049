"""The zero-skip engine in tile form: each weight that is not zero multiplies all cells of a map."""
