"""A small kernel with a sparse cluster in the place of its array."""

from __future__ import annotations

from bfpga.contract.configuration import SystolicConfig

#: Two by two units, four kernels in flight; maps of 16 lines have room.
CLUSTER = SystolicConfig(
    columns=4, rows=4, lanes=4, multiplier="dsp_packed", activation_words=1024, weight_words=1024,
    parameter_rows=256, functions=("none", "relu", "clip"), skip_groups=4, skip_source="activations", skip_chunk=4,
    skip_queue=16, skip_passes=64, cluster_rows=2, cluster_columns=2, cluster_words=16, cluster_lines=16,
    cluster_blocks=64,
)  # fmt: skip
