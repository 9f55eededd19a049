"""processes/scratchpad.hpp of a kernel that skips zeros: halves, chunks or segments that have credits; runs, slices."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from changed_kernels import changed
from scratchpad_runs import Layers, Outcome, ScheduleError, check, run, strict_order

from bfpga.contract.arrays.skip_array import SkipArray, SkipSource, SparseArray
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.devices.csim import Integers

_WEIGHTS = KernelConfig(
    columns=3, rows=16, lanes=2, activation_words=1024, stream_bits=64, array=SkipArray(2, chunk=32)
)
_ACTIVATIONS = replace(_WEIGHTS, rows=8, array=SparseArray(chunk=32, queue=16, passes=2))
#: The pads of tests/cpp/skip_scratchpad.cpp and sparse_scratchpad.cpp: the same numbers.
PADS: dict[SkipSource, tuple[KernelConfig, ...]] = {
    "weights": (
        _WEIGHTS,
        changed(_WEIGHTS, columns=6, rows=32, lanes=4, array_chunk=64),
        changed(_WEIGHTS, columns=1, rows=8, lanes=1, stream_bits=32, array_chunk=16),
    ),
    "activations": (
        _ACTIVATIONS,
        changed(_ACTIVATIONS, columns=6, rows=16, lanes=4, array_chunk=64, array_passes=4, array_queue=32),
        changed(
            _ACTIVATIONS, columns=1, rows=4, lanes=1, stream_bits=32, array_chunk=16, array_passes=1,
            array_queue=4,
        ),
        changed(_ACTIVATIONS, columns=2, rows=6, array_passes=16, array_queue=8),
    ),
}  # fmt: skip
#: Segments that have room.
SEGMENTS = 4
EVERY_SOURCE = pytest.mark.parametrize("source", PADS)


def check_credits(outcome: Outcome, layers: Layers) -> None:
    """Whether what passes read of chunks is called what it is, and each chunk or segment begins with a credit.

    An operation ends with all of them.
    """
    config = layers.model.config
    told = [0, 2, 3, 4] if config.array.computes_runs else [0, 2, 4]
    expected = np.array(layers.model.chunks).reshape(outcome.chunks.shape)
    np.testing.assert_array_equal(outcome.chunks[:, told], expected[:, told])
    ends = outcome.operands[:, 2] == 1
    np.testing.assert_array_equal(outcome.chunks[ends, 1], expected[ends, 1])
    begins, beat = [], 0
    for operation in layers.program.operations:
        d = operation.descriptor
        if d.operation != Operation.GEMM or d.flags & Flag.KEPT:
            continue
        before = 0 if config.array.computes_runs else len(begins)
        room = SEGMENTS if config.array.computes_runs else d.chunk_buffers
        for beats in segment_beats(d, config) if config.array.computes_runs else chunk_beats(d):
            begins.append((beat, max(before, len(begins) + 1 - room)))
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


@pytest.mark.parametrize(
    ("source", "integers", "pad"),
    [
        *((source, "native", pad) for source, pads in PADS.items() for pad in range(len(pads))),
        *(pytest.param(source, "exact", 0, marks=pytest.mark.slow) for source in PADS),
    ],
)
def test_layers_are_read_in_halves_and_chunks(source: SkipSource, integers: Integers, pad: int) -> None:
    """Dense and depthwise layers of several slices, with lanes together and apart, MAX and SUM between, odd numbers of
    groups, slots; credits that come late."""
    late = 5 if source == "activations" else 15
    for seed in range(16 if integers == "native" else 2):
        layers = Layers.of(PADS[source][pad], seed)
        for _ in range(5):
            layers.random_layer()
        strict_order(layers.program)
        outcome = run(pad, integers, layers.program, layers.model, seed % 3 * 3, True, patience=seed % 4 * late)
        check(outcome, layers.program, layers.model)
        check_credits(outcome, layers)


@EVERY_SOURCE
def test_measured_and_kept_passes(source: SkipSource) -> None:
    """MEASURE: chunks, no results; KEPT: results of every group, no chunk; a layer behind them gets its own."""
    layers = Layers.of(PADS[source][0], 3)
    image, target = layers.program.tensor(4, 5, 3), layers.program.tensor(4, 5, 9 if source == "weights" else 7, 7)
    layers.load(image)
    chunks = {"chunk_steps": 2 if source == "weights" else 4, "chunk_buffers": 2, "kernel_height": 3}
    layers.compute(Operation.GEMM, image, target, flags=int(Flag.MEASURE | Flag.KEEP), **chunks)
    layers.compute(Operation.GEMM, image, target, flags=int(Flag.KEPT), channel_words=1)
    layers.compute(Operation.GEMM, image, target, **chunks)
    layers.store(target)
    strict_order(layers.program)
    outcome = run(0, "native", layers.program, layers.model, 3, True, patience=20)
    check(outcome, layers.program, layers.model)
    check_credits(outcome, layers)


@EVERY_SOURCE
@pytest.mark.parametrize("between", [None, Operation.MAX])
def test_vectors_wait_for_results_and_chunks_do_not(between: Operation | None, source: SkipSource) -> None:
    """Nothing of a layer has come back when the next one is read, unless a maximum is between, which could stop both.

    While the output stage has sums to take it takes no vectors, and the scratchpad takes no results then.
    """
    layers = Layers.of(PADS[source][0], 6)
    image = layers.program.tensor(3, 4, 3)
    first, pooled, second = (layers.program.tensor(3, 4, channels) for channels in (4, 3, 5))
    layers.load(image)
    layers.compute(Operation.GEMM, image, first, chunk_steps=1, chunk_buffers=2)
    if between is not None:
        layers.compute(between, image, pooled)
    before = len(layers.model.operands)
    layers.compute(Operation.GEMM, image, second, chunk_steps=2, chunk_buffers=1)
    for operation in layers.program.operations[1:]:
        operation.descriptor.after_loads = 1
    if between is None:
        outcome = run(0, "native", layers.program, layers.model, 2, True, (0, before + 1))
        check(outcome, layers.program, layers.model)
        check_credits(outcome, layers)
    else:
        with pytest.raises(ScheduleError, match="asks in vain for a word of results"):
            run(0, "native", layers.program, layers.model, 2, True, (0, before + 1))
