"""Depthwise layers whose columns take taps from their neighbours: which ones, and what they save (issue 14, item 5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.schedule.schedule import Scheduler
from bfpga.compiler.schedule.weight_plan import plan_weights
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Operation, Policy
from bfpga.contract.limits import problems
from bfpga.contract.process_stream import AWAITED_PASSES, START_GUARD
from bfpga.contract.program import ArrayNode, KernelOperation, PolicySpec, TensorSpec, Window
from bfpga.engines.kernel.cycles import operation_cycles
from bfpga.engines.systolic.tap_reuse import choose_tap_reuse
from bfpga.program.schedule import RESULT_LATENCY

DENSE = load_accelerator("pynq_z2_dense").config
#: The depthwise layers of DS-CNN.
SAME = Window(3, 3, 1, 1, 1, 1, output_height=25, output_width=5)


def depthwise(window: Window = SAME, groups: int = 64, **fields: object) -> ArrayNode:
    shape = (64, window.kernel_height, window.kernel_width, 64 // groups)
    values: dict[str, object] = {"weights": np.ones(shape, np.int32), "groups": groups, **fields}
    return ArrayNode("layer", "gemm", ("x",), "y", 64, window, **values)  # type: ignore[arg-type]


def chosen(node: ArrayNode, config: KernelConfig = DENSE, width: int = 5) -> bool:
    choose_tap_reuse([node], {"x": TensorSpec("x", 25, width, 64)}, config)
    return node.reuses_taps


def test_a_window_of_three_columns_over_a_narrow_image_is_taken() -> None:
    assert chosen(depthwise())
    assert chosen(depthwise(replace(SAME, kernel_height=1, stride_y=2, dilation_y=2, pad_top=0, output_width=6)))
    assert chosen(depthwise(policy=PolicySpec(policy=Policy.STATIC)), replace(DENSE, wide_words=64))


@pytest.mark.parametrize(
    "changes",
    [{"kernel_width": 5}, {"stride_x": 2}, {"dilation_x": 2}, {"pad_left": 0}, {"output_width": 4}, {"spread_y": 2}],
)
def test_other_windows_are_not(changes: dict[str, int]) -> None:
    assert not chosen(depthwise(replace(SAME, **changes)))


@pytest.mark.parametrize(
    ("node", "config", "width"),
    [
        (depthwise(groups=32), DENSE, 5),
        (depthwise(uniform_weights=True), DENSE, 5),
        (depthwise(replace(SAME, output_width=13)), DENSE, 13),
        (depthwise(policy=PolicySpec(policy=Policy.MAX)), replace(DENSE, wide_words=64), 5),
        (depthwise(), replace(DENSE, lanes=2), 5),
        (depthwise(), load_accelerator("pynq_z2_mixed").config, 5),
        (depthwise(), load_accelerator("pynq_z2_shift").config, 5),
    ],
)
def test_other_layers_and_arrays_are_not(node: ArrayNode, config: KernelConfig, width: int) -> None:
    assert not chosen(node, config, width)


def operations(reuses: bool) -> list[KernelOperation]:
    node, tensors = depthwise(), {name: TensorSpec(name, 25, 5, 64) for name in "xy"}
    if reuses:
        choose_tap_reuse([node], tensors, DENSE)
    plans = plan_weights([node], DENSE)
    (step,) = Scheduler(DENSE, tensors, [node], plans, {"y"}).run()
    return [item for item in step.operations if item.descriptor.operation == Operation.GEMM]


def test_four_channels_take_the_clocks_of_their_rows() -> None:
    """13 groups of two whole rows of the image, 16 words, 4 clocks to drain one; else 11 groups, 8 blocks, 18 steps."""
    clocks = [sum(operation_cycles(DENSE, item.descriptor) for item in operations(reuses)) for reuses in (False, True)]
    assert clocks == [11 * 8 * 18, 13 * 16 * 4]


def test_a_descriptor_without_columns_is_refused() -> None:
    descriptor = operations(True)[0].descriptor
    assert descriptor.flags & Flag.NEIGHBOURS
    assert not list(problems(DENSE, descriptor))
    for columns in (0, 13):
        found = list(problems(DENSE, replace(descriptor, group_columns=columns)))
        assert found == [f"group_columns is {columns}; must be 1..12"]
        assert operation_cycles(DENSE, replace(descriptor, group_columns=columns)) > 0


def test_short_passes_do_not_wait_for_the_way_of_their_results() -> None:
    """Passes of a word's drain go on while the results of the first one pass the array and the output stage."""
    assert AWAITED_PASSES * DENSE.lanes >= RESULT_LATENCY - START_GUARD + DENSE.lanes
