"""processes/scratchpad.hpp of a kernel with a skip array (issue 16, item 1): halves, chunks that have credits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from changed_kernels import changed
from scratchpad_runs import Layers, Outcome, ScheduleError, check, run, strict_order

from bfpga.contract.arrays.skip_array import SkipArray
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.devices.csim import Integers

_SMALL = KernelConfig(
    columns=3, rows=16, lanes=2, activation_words=1024, stream_bits=64, array=SkipArray(2, chunk=32)
)
#: The pads of tests/cpp/skip_scratchpad.cpp: the same numbers.
PADS = (
    _SMALL,
    changed(_SMALL, columns=6, rows=32, lanes=4, array_chunk=64),
    changed(_SMALL, columns=1, rows=8, lanes=1, stream_bits=32, array_chunk=16),
)


def check_chunks(outcome: Outcome, layers: Layers) -> None:
    """Whether chunks are called what they are, each begins with a credit, an operation with all of them."""
    expected = np.array(layers.model.chunks).reshape(outcome.chunks.shape)
    np.testing.assert_array_equal(outcome.chunks[:, [0, 2, 4]], expected[:, [0, 2, 4]])
    ends = outcome.operands[:, 2] == 1
    np.testing.assert_array_equal(outcome.chunks[ends, 1], expected[ends, 1])
    begins, beat = [], 0
    for operation in layers.program.operations:
        d = operation.descriptor
        if d.operation != Operation.GEMM or d.flags & Flag.KEPT:
            continue
        before = len(begins)
        for beats in chunk_beats(d):
            begins.append((beat, max(before, len(begins) + 1 - d.chunk_buffers)))
            beat += beats
    assert beat == len(outcome.operands)
    assert len(outcome.credits) == len(begins)
    for first, returned in begins:
        assert returned == 0 or first >= outcome.credits[returned - 1]


def chunk_beats(d: Descriptor) -> list[int]:
    """Operands of each chunk of an operation."""
    window = d.kernel_height * d.kernel_width * d.channel_words
    steps = [min(d.chunk_steps, window - first) for first in range(0, window, d.chunk_steps)] * d.blocks
    pairs = [min(2, d.groups - first) for first in range(0, d.groups, 2)]
    return [halves * number * d.read_slots for halves in pairs for number in steps]


@pytest.mark.parametrize(("integers", "pad"), [("exact", 0), *itertools.product(["native"], range(len(PADS)))])
def test_layers_are_read_in_halves_and_chunks(pad: int, integers: Integers) -> None:
    """Dense and depthwise layers, with lanes together and apart, MAX and SUM between, odd numbers of groups, slots;
    credits that come late."""
    for seed in range(12 if integers == "native" else 2):
        layers = Layers.of(PADS[pad], seed)
        for _ in range(5):
            layers.random_layer()
        strict_order(layers.program)
        outcome = run(pad, integers, layers.program, layers.model, seed % 3 * 3, True, patience=seed % 4 * 15)
        check(outcome, layers.program, layers.model)
        check_chunks(outcome, layers)


def test_measured_and_kept_passes() -> None:
    """MEASURE: chunks, no results; KEPT: results of every group, no chunk; a layer behind them gets its own."""
    layers = Layers.of(PADS[0], 3)
    source, target = layers.program.tensor(4, 5, 3), layers.program.tensor(4, 5, 9, 7)
    layers.load(source)
    chunks = {"chunk_steps": 2, "chunk_buffers": 2, "kernel_height": 3}
    layers.compute(Operation.GEMM, source, target, flags=int(Flag.MEASURE | Flag.KEEP), **chunks)
    layers.compute(Operation.GEMM, source, target, flags=int(Flag.KEPT), channel_words=1)
    layers.compute(Operation.GEMM, source, target, **chunks)
    layers.store(target)
    strict_order(layers.program)
    outcome = run(0, "native", layers.program, layers.model, 3, True, patience=20)
    check(outcome, layers.program, layers.model)
    check_chunks(outcome, layers)


@pytest.mark.parametrize("between", [None, Operation.MAX])
def test_vectors_wait_for_results_and_chunks_do_not(between: Operation | None) -> None:
    """Nothing of a layer has come back when the next one is read, unless a maximum is between, which could stop both.

    While the output stage has sums to take it takes no vectors, and the scratchpad takes no results then.
    """
    layers = Layers.of(PADS[0], 6)
    source = layers.program.tensor(3, 4, 3)
    first, pooled, second = (layers.program.tensor(3, 4, channels) for channels in (4, 3, 5))
    layers.load(source)
    layers.compute(Operation.GEMM, source, first, chunk_steps=1, chunk_buffers=2)
    if between is not None:
        layers.compute(between, source, pooled)
    before = len(layers.model.operands)
    layers.compute(Operation.GEMM, source, second, chunk_steps=2, chunk_buffers=1)
    for operation in layers.program.operations[1:]:
        operation.descriptor.after_loads = 1
    if between is None:
        outcome = run(0, "native", layers.program, layers.model, 2, True, (0, before + 1))
        check(outcome, layers.program, layers.model)
        check_chunks(outcome, layers)
    else:
        with pytest.raises(ScheduleError, match="asks in vain for a word of results"):
            run(0, "native", layers.program, layers.model, 2, True, (0, before + 1))
