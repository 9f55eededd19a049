"""The clocks that the C simulation of a whole kernel counts, beside those of the schedule: operations of a network from
the first operand to the last result, what they wait for, and weights that are filled in meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from changed_kernels import changed
from cluster_configs import CLUSTER, TILE
from effort import some_of
from kernel_pairs import COUNTED, SMALL
from onnx import numpy_helper
from small_networks import Network, compiled

from bfpga.compiler.dispatch import input_zeros
from bfpga.contract.arrays.skip_array import SkipArray, SparseArray
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import BlockTensor, KernelOperation, LaunchStep, Program
from bfpga.devices.csim import COUNTING_FLAGS, CSimulation
from bfpga.devices.kernel_start import KernelResult
from bfpga.engines.kernel import streams
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS
from bfpga.errors import DeviceError
from bfpga.program.cycles import sample_starts
from bfpga.program.schedule import schedule

#: Clocks that the simulation, which counts iterations of loops, does not have: before each computing operation those of
#: the stages of pipelines (`depth` of the figures) and of what the output stage does between its loops; and those in
#: which the end of a start goes through the processes. The Verilog takes them (`benchmarks.verify.rtl_clocks`).
STAGES, END = 46, 53
#: What a schedule may differ by, of the clocks: groups of entries run ahead of each other; how many activations are not
#: zero, and how far that evens out between pixels, is a mean; pieces of a map without zeros need no moves.
SHARE, SHARE_OF_MEANS, SHARE_OF_COUNTS = 0.01, 0.04, 0.02

#: Sixteen kernels in flight, and maps of 16 x 16 cells have room in two units.
CLUSTERED = changed(
    CLUSTER, columns=8, rows=16, activation_words=4096, weight_words=4096, parameter_rows=512, accumulator_bits=24,
    array_words=64, array_map_lines=32, array_map_blocks=128,
)  # fmt: skip
#: As if it took no time to count maps, so that all are which can be.
COUNTING_MAPS = "cluster that counts maps"
#: Units of variant A, whose pieces have whole micro-tiles; a schedule knows of no others.
WHOLE_TILES = "cluster of variant A"
SKIPPING = replace(COUNTED, array=SkipArray(8, chunk=64))
#: Some with output stages of few columns, which make every kind of array wait.
ARRAYS = {
    "dense": COUNTED,
    "dense that adds, half of a row at a time": replace(COUNTED, residual_adds=True, post_columns=COUNTED.columns // 2),
    "weights that come meanwhile": replace(SKIPPING, weight_words=700),
    "activations, half of a row at a time": replace(
        COUNTED, array=SparseArray(chunk=64, queue=64, passes=4), post_columns=4
    ),
    COUNTING_MAPS: CLUSTERED,
    WHOLE_TILES: changed(CLUSTERED, array_variant="A"),
}


def network(size: int = 16) -> Network:
    """Layers whose windows, products or sums decide, a residual sum, depthwise taps, and a connected layer.

    Without ReLU, since zeros of activations are no matter of a schedule without samples. size: of the input's maps.
    """
    result = Network(3, size, size)
    value = result.conv(16, 3, 3, pads=[1, 1, 1, 1])
    inner = result.conv(24, 16, 3, pads=[1, 1, 1, 1])
    inner = result.conv(16, 24, 1, source=inner)
    result.add("Add", value, inner)
    result.conv(40, 16, 1, strides=[2, 2])
    result.conv(40, 40, 3, group=40, pads=[1, 1, 1, 1])
    result.conv(16, 40, 1)
    result.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    result.add("Flatten", axis=1)
    result.add("Gemm", result.last, result.weights(10, size * size), result.weights(10), transB=1)
    return result


class Counted:
    """A kernel that counts clocks, and the starts of a program on random tensors."""

    def __init__(self, program: Program) -> None:
        self.program, self.config = program, program.config
        self.kernel = CSimulation(self.config, flags=COUNTING_FLAGS)
        self.kernel.count_clocks()
        rng = np.random.default_rng(1)
        self.tensors = {
            name: BlockTensor(
                rng.integers(-100, 101, (1, spec.height, spec.width, spec.channels)).astype(np.int8),
                np.zeros(1, np.int64),
            )
            for name, spec in program.tensors.items()
        }

    def start(self, operations: list[KernelOperation]) -> KernelResult:
        packet = streams.input_packet(operations, self.config, self.tensors)
        size = streams.output_bytes(operations, self.config)
        return self.kernel.run_packet(len(operations), packet, streams.weight_stream(operations), size)

    def run(self, operations: list[KernelOperation]) -> tuple[int, list[int]]:
        """Clocks of a start, and when each operation had ended."""
        self.start(operations)
        return self.kernel.clocks(len(operations))


@pytest.mark.parametrize("name", some_of(ARRAYS, *(name for name in ARRAYS if name != WHOLE_TILES)))
def test_a_schedule_takes_the_clocks_of_the_processes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the stages of pipelines before every operation that waits for the results of another one."""
    if name == COUNTING_MAPS:
        monkeypatch.setattr(input_zeros, "count_pauses", lambda rows: -1e6)
    program = compiled(network(12 if name == WHOLE_TILES else 16), tmp_path, ARRAYS[name])
    counted = Counted(program)
    if program.setup.operations:
        clocks, _ = counted.run(program.setup.operations)
        assert abs(schedule(program.config, program.setup.operations).clocks - clocks) <= 0.01 * clocks + 40
    starts = [start.operations for start in sample_starts(program)]
    assert starts
    for operations in starts:
        clocks, ended = counted.run(operations)
        assert ended == sorted(ended) or name == "weights that come meanwhile"
        computing = sum(item.descriptor.operation in ARRAY_OPERATIONS for item in operations)
        found = schedule(program.config, operations).clocks
        counts = any(item.descriptor.most_moves for item in operations if item.descriptor.flags & Flag.CLUSTER)
        assert counts == (name == COUNTING_MAPS)
        share = SHARE_OF_COUNTS if counts else SHARE_OF_MEANS if name.startswith("activations") else SHARE
        assert abs(found - clocks - STAGES * computing - END) <= share * clocks


@pytest.mark.parametrize(
    ("density", "expected"), [pytest.param(1.0, 90599, marks=pytest.mark.slow), (0.15, 33222)]
)
def test_a_tile_takes_a_clock_for_each_weight_and_group_of_rows(density: float, expected: int, tmp_path: Path) -> None:
    """ZS R45, ZS R53: a schedule takes no fewer; more where sums of a map leave beside the next map of a layer."""
    config = replace(TILE, activation_words=4096, weight_words=4096)
    layers, rng = network(), np.random.default_rng(3)
    for tensor in layers.constants:
        values = numpy_helper.to_array(tensor)
        kept = (rng.random(values.shape) < density) | (values.ndim == 1)
        tensor.CopyFrom(numpy_helper.from_array(values * kept, tensor.name))
    program = compiled(layers, tmp_path, config)
    counted = Counted(program)
    counted.run(program.setup.operations)
    starts = [start.operations for start in sample_starts(program)]
    clocks = sum(counted.run(operations)[0] for operations in starts)
    assert clocks == pytest.approx(expected, rel=SHARE / 4)
    assert clocks < sum(schedule(config, operations).clocks for operations in starts) < 1.2 * clocks


def test_stages_of_pipelines_take_clocks_and_change_nothing_else(tmp_path: Path) -> None:
    """A result leaves the scratchpad, the array and the output stage: a third of what a schedule counts for all."""
    program = compiled(network(), tmp_path, ARRAYS["dense"])
    counted = Counted(program)
    (operations, *_) = [start.operations for start in sample_starts(program)]
    computing = sum(item.descriptor.operation in ARRAY_OPERATIONS for item in operations)
    found = schedule(program.config, operations).clocks
    without, (least, _) = counted.start(operations), counted.kernel.clocks(0)
    counted.kernel.stall(stages={"": STAGES // 3})
    assert counted.start(operations) == without
    clocks, _ = counted.kernel.clocks(0)
    assert least + STAGES * computing / 2 < clocks <= least + STAGES * computing
    # What is done between loops has no stages.
    assert abs(found - clocks - END) <= 3 * SHARE * clocks
    counted.kernel.stall()
    assert (counted.start(operations), counted.kernel.clocks(0)[0]) == (without, least)


def test_a_pass_takes_no_less_than_the_walk_over_its_pixels(tmp_path: Path) -> None:
    """One is placed a clock, however few products and sums a pass has."""
    wide = changed(SKIPPING, columns=32, array_groups=16)
    program = compiled(network(), tmp_path, wide)
    operations = [item.descriptor for step in program.steps if isinstance(step, LaunchStep) for item in step.operations]
    passes = [d for d in operations if d.entry_words and d.groups > 1 and d.operation == Operation.GEMM]
    assert passes
    assert all(d.steps >= wide.array.halves * d.group_columns for d in passes)


def test_a_build_without_checks_of_waivers_counts_no_clocks() -> None:
    with pytest.raises(DeviceError, match="only a kernel whose loops are counted"):
        CSimulation(SMALL).count_clocks()
