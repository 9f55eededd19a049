"""What both sides must agree on: the numbers of a kernel, descriptors, registers, nodes and steps of a program."""
