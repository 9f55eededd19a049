"""processes/scratchpad.hpp of a kernel with a skip array (issue 16, item 1): halves, chunks that have credits."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scratchpad_runs import Layers, Outcome, check, run, strict_order

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.devices.csim import Integers

_SMALL = SystolicConfig(
    kernel="processes", columns=3, rows=16, lanes=2, activation_words=1024, stream_bits=64, skip_groups=2, skip_chunk=32
)
#: The pads of tests/cpp/skip_scratchpad.cpp: the same numbers.
PADS = (
    _SMALL,
    replace(_SMALL, columns=6, rows=32, lanes=4, skip_chunk=64),
    replace(_SMALL, columns=1, rows=8, lanes=1, stream_bits=32, skip_chunk=16),
)


def check_chunks(outcome: Outcome, layers: Layers) -> None:
    """Whether chunks are called what they are, each begins with a credit, an operation with all of them."""
    expected = np.array(layers.model.chunks).reshape(outcome.chunks.shape)
    np.testing.assert_array_equal(outcome.chunks[:, [0, 2]], expected[:, [0, 2]])
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
    """Dense and depthwise layers, MAX and SUM between, odd numbers of groups, slots; credits that come late."""
    for seed in range(12 if integers == "native" else 2):
        layers = Layers.of(PADS[pad], seed)
        for _ in range(5):
            layers.random_layer()
        strict_order(layers.program)
        outcome = run(pad, integers, layers.program, layers.model, seed % 3 * 3, True, patience=seed % 4 * 15)
        check(outcome, layers.program, layers.model)
        check_chunks(outcome, layers)
