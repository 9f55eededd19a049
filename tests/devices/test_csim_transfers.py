"""LOAD and STORE of the compiled kernel: groups of pixels, rows, gaps, beats (docs/systolic-array.md, section 3)."""

from __future__ import annotations

import numpy as np
import pytest
from array_programs import Program, random_tensor
from effort import each_once
from kernel_pairs import NIBBLES, SMALL, WIDE_MEMORY, KernelPair

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Operation
from bfpga.engines.kernel.streams import pad_to
from bfpga.errors import DeviceError

#: More words of a beat than banks, as many as a row has, and one.
TRANSFERS = [SMALL, NIBBLES, WIDE_MEMORY]


@pytest.mark.parametrize("config", TRANSFERS, ids=lambda c: f"{c.transfer_pixels}of{c.words_per_beat}in{c.banks}")
@pytest.mark.parametrize(("shape", "gap"), each_once([(1, 1, 5), (3, 5, 3), (2, 8, 4), (4, 9, 1)], [0, 1, 4]))
def test_transfers_move_a_word_of_several_pixels_a_clock(
    config: KernelConfig, shape: tuple[int, int, int], gap: int
) -> None:
    """R19: what is stored is what was loaded, whatever the group, the width of a row and its distance to the next."""
    program = Program(config)
    x = program.tensor(*shape, pitch=shape[1] + gap)
    guard = program.tensor(1, 3, 2)
    program.load("guard", guard)
    program.load("x", x)
    program.store("x", x)
    program.store("guard", guard)
    rng = np.random.default_rng(11)
    tensors = {"x": random_tensor(rng, x, config), "guard": random_tensor(rng, guard, config)}
    kept = tensors["x"].mantissa.copy()
    KernelPair(config).run(program, tensors)
    assert (tensors["x"].mantissa == kept).all()


def test_a_transfer_that_ends_inside_a_row_stops_with_a_sentence() -> None:
    """Three rows of five pixels reach beyond the twelve."""
    program = Program(SMALL)
    x = program.tensor(2, 6, 2)
    program.load("x", x)
    load = program.operations[0].descriptor
    load.output_width = 5
    packet = pad_to(load.to_words().astype("<i4").tobytes(), 8) + bytes(8 * 8)
    with pytest.raises(DeviceError, match="a transfer ends inside a row; pixels moved beyond its end: 3"):
        KernelPair(SMALL).kernel.run_packet(1, packet)


def test_a_load_of_rows_without_pixels_stops_with_a_sentence() -> None:
    load = Descriptor(Operation.LOAD, output_pixels=4, output_width=0)
    with pytest.raises(DeviceError, match="a load has rows without pixels; output_width is 0"):
        KernelPair(SMALL).kernel.run_packet(1, load.to_words().astype("<i4").tobytes() + bytes(8))


@pytest.mark.parametrize(("operation", "message"), [("load", "a write"), ("store", "a store")])
def test_a_transfer_beyond_the_memory_stops_with_a_sentence(operation: str, message: str) -> None:
    program = Program(SMALL)
    x = program.tensor(2, 6, 2)
    getattr(program, operation)("x", x)
    d = program.operations[0].descriptor
    d.output_word = d.input_word = SMALL.activation_words
    tensors = {"x": random_tensor(np.random.default_rng(1), x, SMALL)}
    with pytest.raises(DeviceError, match=f"{message} goes outside the activation memory, to word 256"):
        KernelPair(SMALL).kernel.run_operations(program.operations, tensors)
