"""Small kernels with a sparse cluster, or a tile, in the place of their array."""

from __future__ import annotations

from dataclasses import replace

from changed_kernels import changed

from bfpga.contract.arrays.sparse_cluster import ClusterVariant, SparseCluster
from bfpga.contract.arrays.zero_skip_tile import ZeroSkipTile
from bfpga.contract.configuration import KernelConfig

#: Two by two units, four kernels in flight; maps of 16 lines have room.
CLUSTER = KernelConfig(
    columns=4, rows=4, lanes=4, multiplier="dsp_packed", activation_words=1024, weight_words=1024,
    parameter_rows=256, functions=("none", "relu", "clip"),
    array=SparseCluster(rows=2, columns=2, words=16, map_lines=16, map_blocks=64),
)  # fmt: skip
#: With units of each variant: a kernel takes as long to compile as hundreds of networks take to run, so files share it.
VARIANTS: dict[ClusterVariant, KernelConfig] = {
    variant: changed(CLUSTER, array_variant=variant, array_lanes=products, array_words=words)
    for variant, products, words in (("A", 4, 32), ("B", 4, 32), ("C", 6, 32), ("D", 6, 32), ("E", 4, 16))
}
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
