"""A compiled network on its way to a kernel: file, packets, layout, cycles, listing."""
