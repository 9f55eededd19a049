"""Random networks on random arrays: every schedule is followed word by word."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from effort import drawn
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memory_walk import MemoryWalk, check_coverage
from small_networks import Network, compiled, float_outputs, largest_error

from bfpga.compiler.options import CompileOptions
from bfpga.contract.configuration import KernelConfig
from bfpga.errors import ModelError
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.shift_format import ShiftFormat

#: Largest error of the outputs by format of the weights: a power of two is a third off at most, two-hot words of eight
#: bits a sixteenth.
ERRORS = {"linear": 0.05, "two_hot": 0.5, "power_of_two": 1.5}
#: Results are judged as if they were so large, measured by the largest value of a layer, at least: factors that nearly
#: cancel have the error of what they were added from.
LEAST = 0.05


@st.composite
def arrays(draw: st.DrawFn) -> KernelConfig:
    lanes = draw(st.sampled_from([1, 2, 4]))
    kind = draw(st.sampled_from(["dsp", "dsp", "shift", "mixed"]))
    beside = draw(st.integers(1, 4)) if kind == "mixed" else 0
    return KernelConfig(
        format=BlockFormat(mantissa_bits=12),
        columns=draw(st.integers(1, 9)) + beside,
        multiplier="shift" if kind == "shift" else "dsp",
        shift_columns=beside,
        shift=None if kind == "dsp" else ShiftFormat(x_width=12),
        rows=draw(st.sampled_from([4, 8])),
        lanes=lanes,
        accumulator_bits=48,
        activation_words=draw(st.sampled_from([60, 120, 250, 1000])),
        weight_words=draw(st.sampled_from([30, 120, 4000])),
        parameter_rows=draw(st.sampled_from([16, 64, 512])),
    )


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Up to four layers with any windows, one with computed factors; the last ones may be joined or added."""
    channels = draw(st.integers(1, 6))
    network = Network(channels, draw(st.integers(4, 12)), draw(st.integers(4, 12)))
    for _ in range(draw(st.integers(1, 3))):
        channels = _layer(draw, network, channels)
    if draw(st.integers(0, 2)) == 0:
        network.excitation(channels)
    if draw(st.booleans()):
        first = network.last
        second = network.conv(channels, channels, 3, pads=[1, 1, 1, 1])
        if draw(st.booleans()):
            network.add("Relu", network.add("Add", second, first))
        else:
            network.add("Concat", second, network.conv(4, channels, 1, source=first), axis=1)
            channels += 4
        network.conv(3, channels, 1)
    return network


def _layer(draw: st.DrawFn, network: Network, channels: int) -> int:
    kernel = draw(st.integers(1, 3))
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    strides = [draw(st.integers(1, 3)) for _ in range(2)]
    if draw(st.integers(0, 3)) == 0:
        pads = [min(pad, kernel - 1) for pad in pads]
        network.add("MaxPool", kernel_shape=[kernel, kernel], pads=pads, strides=strides)
        return channels
    groups = draw(st.sampled_from([g for g in range(1, channels + 1) if channels % g == 0]))
    outputs = groups * draw(st.integers(1, 5))
    dilations = [draw(st.integers(1, 2)) for _ in range(2)]
    if draw(st.integers(0, 4)) == 0:
        pads = [min(pad, kernel - 1) for pad in pads]
        weights = network.weights(channels, outputs // groups, kernel, kernel)
        network.add("ConvTranspose", network.last, weights, network.weights(outputs), group=groups, pads=pads,
                    strides=strides, dilations=dilations)  # fmt: skip
        return outputs
    network.conv(outputs, channels, kernel, group=groups, pads=pads, strides=strides, dilations=dilations)
    return outputs


def groups_wider_than_blocks() -> Network:
    """Groups of three outputs on rows of four: a second block of rows begins in the midst of a group."""
    network = Network(2, 4, 4)
    network.add("ConvTranspose", "x", network.weights(2, 3, 1, 1), network.weights(6), group=2)
    network.add("GlobalAveragePool")
    return network


def nearly_cancelling_factors() -> Network:
    """The factors are zero for all samples but one, and a thousandth of their bias for that one."""
    network = Network(1, 7, 8)
    network.conv(2, 1, 3, pads=[2, 1, 2, 0], strides=[1, 3], dilations=[2, 2])
    network.excitation(2)
    return network


#: An image of grouped layers fills the memory to its last word.
FULL_MEMORY = KernelConfig(
    format=BlockFormat(mantissa_bits=12), columns=1, rows=4, lanes=1, accumulator_bits=48,
    activation_words=250, weight_words=30, parameter_rows=16,
)  # fmt: skip
SMALL = replace(FULL_MEMORY, columns=6, rows=8, lanes=4, activation_words=1000, weight_words=120)


@settings(deadline=None, max_examples=drawn(25))
@example(groups_wider_than_blocks(), FULL_MEMORY, False, 0)
@example(nearly_cancelling_factors(), SMALL, False, 0)
@given(networks(), arrays(), st.booleans(), st.integers(0, 1))
def test_random_networks_are_scheduled_without_a_wrong_word(
    network: Network, config: KernelConfig, calibrate: bool, choice: int
) -> None:
    """R57, R68, R74, R82; SM R33 with arrays of shift units, whose layers get any format that the array has"""
    with tempfile.TemporaryDirectory() as folder:
        if not _valid(network):
            return
        weight_format = config.weight_formats[choice % len(config.weight_formats)]
        try:
            options = CompileOptions(formats=weight_format)
            program = compiled(network, Path(folder), config, options, calibrate=calibrate)
        except ModelError as error:
            if "window" not in str(error):
                raise
            return  # a window larger than its image
    MemoryWalk(program).run()
    check_coverage(program)
    assert largest_error(network, program, least=LEAST * _largest_between(network)) < ERRORS[weight_format]


def _largest_between(network: Network) -> float:
    """The largest value of any layer."""
    names = tuple(name for node in network.nodes for name in node.output)
    return max(float(np.abs(values).max()) for values in float_outputs(network, network.samples(16), names))


def _valid(network: Network) -> bool:
    """Whether no image has shrunk to nothing."""
    model = network.model()
    values = [*model.graph.value_info, *model.graph.output]
    shapes = [value.type.tensor_type.shape for value in values]
    return len(values) == len(model.graph.node) and all(dim.dim_value > 0 for shape in shapes for dim in shape.dim[1:])


def test_windows_that_lie_in_the_padding_alone_give_the_bias(tmp_path: Path) -> None:
    """One pixel between the taps: calibration finds nothing that the layer reads."""
    network = Network(2, 1, 1)
    network.conv(3, 2, 2, pads=[1, 1, 1, 1], dilations=[2, 2])
    config = KernelConfig(multiplier="shift", shift=ShiftFormat(x_width=16), accumulator_bits=48)
    assert largest_error(network, compiled(network, tmp_path, config)) < ERRORS["two_hot"]
