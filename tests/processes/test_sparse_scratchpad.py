"""processes/scratchpad.hpp of a kernel that skips zeros of activations: runs, slices, chunks, segments with credits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from changed_kernels import changed
from scratchpad_runs import Layers, Outcome, ScheduleError, check, run, strict_order

from bfpga.contract.arrays.skip_array import SparseArray
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.devices.csim import Integers

_SMALL = KernelConfig(
    columns=3, rows=8, lanes=2, activation_words=1024, stream_bits=64,
    array=SparseArray(chunk=32, queue=16, passes=2),
)  # fmt: skip
#: The pads of tests/cpp/sparse_scratchpad.cpp: the same numbers.
PADS = (
    _SMALL,
    changed(_SMALL, columns=6, rows=16, lanes=4, array_chunk=64, array_passes=4, array_queue=32),
    changed(_SMALL, columns=1, rows=4, lanes=1, stream_bits=32, array_chunk=16, array_passes=1,
            array_queue=4),
    changed(_SMALL, columns=2, rows=6, array_passes=16, array_queue=8),
)  # fmt: skip
#: Segments that have room.
SEGMENTS = 4


def check_segments(outcome: Outcome, layers: Layers) -> None:
    """Whether what passes read of chunks is called what it is, and each segment begins with a credit."""
    expected = np.array(layers.model.chunks).reshape(outcome.chunks.shape)
    np.testing.assert_array_equal(outcome.chunks[:, [0, 2, 3, 4]], expected[:, [0, 2, 3, 4]])
    ends = outcome.operands[:, 2] == 1
    np.testing.assert_array_equal(outcome.chunks[ends, 1], expected[ends, 1])
    begins, beat = [], 0
    for operation in layers.program.operations:
        d = operation.descriptor
        if d.operation == Operation.GEMM and not d.flags & Flag.KEPT:
            for beats in segment_beats(d, layers.model.config):
                begins.append(beat)
                beat += beats
    assert beat == len(outcome.operands)
    assert len(outcome.credits) == len(begins)
    for number, first in enumerate(begins[SEGMENTS:]):
        assert first >= outcome.credits[number]


def segment_beats(d: Descriptor, config: KernelConfig) -> list[int]:
    """Operands of each segment of an operation."""
    window = d.kernel_height * d.kernel_width * d.channel_words
    chunks = [min(d.chunk_steps, window - first) for first in range(0, window, d.chunk_steps)]
    most = config.array.queue_words() // SEGMENTS
    run = 2 * config.array.run_passes(config)
    beats = []
    for first, _, steps in itertools.product(range(0, d.groups, run), range(d.blocks), chunks):
        groups = range(first, min(first + run, d.groups))
        for pair in groups[::2]:
            halves = min(2, groups.stop - pair)
            beats += [halves * d.read_slots * min(most, steps - begin) for begin in range(0, steps, most)]
    return beats


@pytest.mark.parametrize(("integers", "pad"), [("exact", 0), *itertools.product(["native"], range(len(PADS)))])
def test_layers_are_read_in_runs_slices_and_chunks(pad: int, integers: Integers) -> None:
    """Dense and depthwise layers of several slices, MAX and SUM between, odd numbers of groups, slots; credits that
    come late."""
    for seed in range(16 if integers == "native" else 2):
        layers = Layers.of(PADS[pad], seed)
        for _ in range(5):
            layers.random_layer()
        strict_order(layers.program)
        outcome = run(pad, integers, layers.program, layers.model, seed % 3 * 3, True, patience=seed % 4 * 5)
        check(outcome, layers.program, layers.model)
        check_segments(outcome, layers)


def test_measured_and_kept_passes() -> None:
    """MEASURE: windows, no results; KEPT: results of every group, no window; a layer behind them gets its own."""
    layers = Layers.of(PADS[0], 3)
    source, target = layers.program.tensor(4, 5, 3), layers.program.tensor(4, 5, 7, 7)
    layers.load(source)
    chunks = {"chunk_steps": 4, "chunk_buffers": 2, "kernel_height": 3}
    layers.compute(Operation.GEMM, source, target, flags=int(Flag.MEASURE | Flag.KEEP), **chunks)
    layers.compute(Operation.GEMM, source, target, flags=int(Flag.KEPT), channel_words=1)
    layers.compute(Operation.GEMM, source, target, **chunks)
    layers.store(target)
    strict_order(layers.program)
    outcome = run(0, "native", layers.program, layers.model, 3, True, patience=20)
    check(outcome, layers.program, layers.model)
    check_segments(outcome, layers)


@pytest.mark.parametrize("between", [None, Operation.MAX])
def test_vectors_wait_for_results_and_windows_do_not(between: Operation | None) -> None:
    """Nothing of a layer is back when the next one is read, unless a maximum is between, which could stop both."""
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
        check_segments(outcome, layers)
    else:
        with pytest.raises(ScheduleError, match="asks in vain for a word of results"):
            run(0, "native", layers.program, layers.model, 2, True, (0, before + 1))
