"""The systolic array: numpy model, cycles, resources, descriptors, streams."""
