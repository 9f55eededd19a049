"""Small kernels with a sparse cluster, or a tile, in the place of their array."""

from __future__ import annotations

from dataclasses import replace

from bfpga.contract.arrays.sparse_cluster import SparseCluster
from bfpga.contract.arrays.zero_skip_tile import ZeroSkipTile
from bfpga.contract.configuration import KernelConfig

#: Two by two units, four kernels in flight; maps of 16 lines have room.
CLUSTER = KernelConfig(
    columns=4, rows=4, lanes=4, multiplier="dsp_packed", activation_words=1024, weight_words=1024,
    parameter_rows=256, functions=("none", "relu", "clip"),
    array=SparseCluster(rows=2, columns=2, words=16, map_lines=16, map_blocks=64),
)  # fmt: skip
#: A tile of 12 x 15 cells, three rows at a time.
TILE = replace(CLUSTER, array=ZeroSkipTile(rows=12, columns=15, parallel=3))
#: An accelerator file with two by two units, and room for few weights: every start brings some.
CLUSTER_FILE = """\
name: small_cluster
board: pynq_z2
clock_mhz: 100
engines:
  - kind: sparse_cluster_array
    format: {profile: bfp8}
    variant: E
    grid: [2, 2]
    kernel: 3
    columns: 4
    rows: 4
    lanes: 4
    unit_words: 16
    queue: 16
    map_lines: 16
    map_blocks: 64
    activation_words: 1024
    weight_words: 16
    parameter_rows: 256
    functions: [none, relu, clip]
"""
