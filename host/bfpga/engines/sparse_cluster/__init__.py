"""The sparse cluster: units that each compute a piece of a map, by activations that are not zero."""
