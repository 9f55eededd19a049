"""What every kernel has, whatever its array: numpy model, descriptors, streams, cycles, resources."""
