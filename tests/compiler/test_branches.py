"""The order of branches: a shortcut's convolution fills the wait for the results of the other branch's first one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_pairs import small
from small_networks import Network, compiled

from bfpga.compiler.schedule import overlap
from bfpga.contract.arrays.skip_array import SkipArray
from bfpga.contract.program import LaunchStep, Program
from bfpga.devices.emulator import Emulator
from bfpga.engines.kernel.cycles import ARRAY_OPERATIONS
from bfpga.program.schedule import schedule

ARRAY = {"columns": 8, "lanes": 4, "rows": 16, "activation_words": 4096, "parameter_rows": 512,
         "multiplier": "dsp_packed", "accumulator_bits": 24, "weight_words": 4096}  # fmt: skip
DENSE = small(**ARRAY)
MEANWHILE = "weights that come meanwhile"
#: A dense array with its weights in place gains nothing: the turn of the output stage takes longer than results do.
KERNELS = {
    "weights": small(**ARRAY, array=SkipArray(8, chunk=64)),
    MEANWHILE: small(**ARRAY | {"weight_words": 200}),
}


def network(name: str) -> Network:
    """A residual block whose shortcut, a convolution, stands before the other branch.

    Where weights that come take the time, it is a larger one that gains.
    """
    size, channels = (16, 32) if name == MEANWHILE else (12, 16)
    result = Network(8, size, size)
    value = result.add("Relu", result.conv(channels, 8, 3, pads=[1, 1, 1, 1]))
    beside = result.conv(channels, channels, 1, source=value, strides=[2, 2])
    inner = result.add("Relu", result.conv(channels, channels, 3, source=value, strides=[2, 2], pads=[0, 0, 1, 1]))
    inner = result.conv(channels, channels, 3, source=inner, pads=[1, 1, 1, 1])
    result.add("Relu", result.add("Add", beside, inner))
    return result


def computed(program: Program) -> list[str]:
    """Layers in the order in which they are computed."""
    (start,) = [step for step in program.steps if isinstance(step, LaunchStep)]
    found = [item.layer for item in start.operations if item.descriptor.operation in ARRAY_OPERATIONS]
    return list(dict.fromkeys(found))


def clocks(program: Program) -> int:
    (start,) = [step for step in program.steps if isinstance(step, LaunchStep)]
    return schedule(program.config, start.operations, 4).clocks


@pytest.mark.parametrize("name", KERNELS)
def test_the_branch_that_others_wait_for_comes_first(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same values, and fewer clocks than in the order of the network."""
    program, samples = compiled(network(name), tmp_path, KERNELS[name]), network(name).samples(3)
    monkeypatch.setattr(overlap, "branches_first", list)
    plain = compiled(network(name), tmp_path, KERNELS[name])
    monkeypatch.undo()
    before, after = computed(plain), computed(program)
    assert before[1:3] == after[2:0:-1]
    assert before[:1] + before[3:] == after[:1] + after[3:]
    assert clocks(program) < clocks(plain)
    expected = Emulator(plain).run(samples).outputs
    for output, values in Emulator(program).run(samples).outputs.items():
        assert np.array_equal(values, expected[output])


def test_layers_keep_their_order_where_one_needs_the_other(tmp_path: Path) -> None:
    result = Network(8, 12, 12)
    for channels in (8, 16, 16, 16):
        result.conv(16, channels, 3, pads=[1, 1, 1, 1])
    program = compiled(result, tmp_path, DENSE)
    assert computed(program) == [node.name for node in program.nodes]
