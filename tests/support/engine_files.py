"""An accelerator file with every kind of engine."""

from __future__ import annotations

#: Three engines, as small as they get; every key of the two beside the array is given.
FILE = """\
name: three_engines
board: pynq_z2
clock_mhz: 100
engines:
  - kind: systolic_array
    format: {profile: bfp8}
    columns: 9
    rows: 4
    lanes: 2
    multiplier: dsp_packed
    accumulator_bits: 28
    activation_words: 512
    weight_words: 128
    parameter_rows: 64
    functions: [none, relu]
  - kind: zero_skip
    tile: [4, 10]
    lanes: 9
    rows_parallel: 2
    kernels_in_flight: 4
    kernel: [3, 2]
    stride: 1
    multiplier: lut
    load_pixels: 4
  - kind: sparse_cluster
    variant: E
    grid: [2, 2]
    kernel: 3
    kernels_in_flight: 6
    accumulator_words: 32
    memory_words: 48
    multiplier: lut
    load_pixels: 8
"""
