"""Products that add a tensor to their sums in the kernel: bits, descriptors, and how many words may be on the way."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from drawn_kernels import drawn_kernels
from effort import drawn, some_of
from operand_kernels import OPERANDS
from two_arrays import TWO_ARRAYS

from bfpga.contract.descriptor import ADD_WORDS, ADDS_SECOND, Descriptor, Operation, word_names
from bfpga.contract.kernel_numbers import kernel_identity
from bfpga.contract.process_stream import ADDED_WORDS
from bfpga.contract.processes import process_streams
from bfpga.contract.program import ArrayNode, Program
from bfpga.engines.configurations import check_config
from bfpga.errors import ConfigurationError
from bfpga.formats.block_format import BlockFormat
from bfpga.vendor.render import render_kernel
from bfpga.verify.check import verify
from bfpga.verify.random_network import random_program

#: Groups of nine pixels, whose last has fewer; blocks of four words, whose last has fewer.
ADDS = replace(OPERANDS, operand_weights=False, residual_adds=True)
#: A row in turns; as many columns as banks; narrow mantissas; taps of adjacent columns.
OTHERS = {
    "slices": replace(ADDS, columns=12, post_columns=3, rows=16, lanes=4),
    "a column at a time": replace(ADDS, columns=7, post_columns=1),
    "all banks": replace(ADDS, columns=11, rows=8, lanes=4),
    "loaded tables": replace(ADDS, function_tables=2),
    "four products": replace(ADDS, columns=8, rows=8, lanes=4, multiplier="dsp_quad", format=BlockFormat(5)),
    "full range": replace(ADDS, format=BlockFormat(8, rounding="half_away", saturation="full"), accumulator_bits=20),
    "products of tensors": replace(ADDS, operand_weights=True, row_columns=3),
    "program memory": replace(ADDS, program_descriptors=64),
}


def adding(program: Program) -> list[ArrayNode]:
    """Layers of a program that add a tensor."""
    return [node for node in program.nodes if isinstance(node, ArrayNode) and node.adds_second]


@pytest.mark.parametrize(
    "target",
    ["csim", "csim:ap_int", "csim:exact", "csim:stalled", "virtual", pytest.param("rtl", marks=pytest.mark.slow)],
)
def test_random_networks(target: str) -> None:
    """BFP R46: in C++, with stages and pauses in every loop, on the virtual board, in Verilog."""
    report = verify([ADDS], [target], drawn(25))
    assert report.mismatch is None, report.mismatch


@pytest.mark.parametrize("name", some_of(OTHERS, "slices"))
def test_random_networks_of_other_kernels(name: str) -> None:
    report = verify([OTHERS[name]], ["csim:stalled"], drawn(15))
    assert report.mismatch is None, report.mismatch


def test_random_kernels_and_networks_have_all_that_additions_may_have() -> None:
    """Otherwise the tests above would show little."""
    configs = drawn_kernels()
    assert sum(config.residual_adds for config in configs) > 20
    assert sum(config.residual_adds and config.row_turns > 1 for config in configs) > 5
    found: Counter[str] = Counter()
    for seed in range(120):
        program = random_program(np.random.default_rng(seed), ADDS)
        for node in adding(program):
            width, channels = node.window.output_width, node.channels
            found["several groups"] += node.window.output_height * width > ADDS.columns
            found["a group of fewer pixels"] += node.window.output_height * width % ADDS.columns > 0
            found["a block of fewer words"] += -(-channels // ADDS.lanes) % ADDS.words_per_block > 0
            found["a word of fewer channels"] += channels % ADDS.lanes > 0
            found["exponents of rows"] += node.weight_exponents is not None
            found["in one word or more"] += 1
    assert len(found) == 6
    assert min(found.values()) > 3, found


def test_words_on_the_way_have_room_whatever_the_array_does() -> None:
    """The loop that sends them sends operands too, without which no sum comes that takes them."""
    (stream,) = (item for item in process_streams(ADDS) if item.name == "vectors")
    assert stream.needed == ADDED_WORDS <= stream.depth
    (other,) = (item for item in process_streams(replace(ADDS, residual_adds=False)) if item.name == "vectors")
    assert (other.needed, other.depth, other.bits) == (1, stream.depth, stream.bits)


def test_a_descriptor_that_adds_comes_back_out_of_its_words() -> None:
    given = Descriptor(
        operation=Operation.GEMM, flags=int(ADDS_SECOND), added_word=5, added_bank=3, added_pixel_words=7, second_slot=2
    )
    assert Descriptor.from_words(given.to_words()) == given
    assert set(ADD_WORDS) <= set(word_names(Operation.GEMM, int(ADDS_SECOND)))
    assert not set(ADD_WORDS) & set(word_names(Operation.GEMM))


@pytest.mark.parametrize("array", [TWO_ARRAYS.array])
def test_kernels_that_cannot_have_it_are_refused(array: object) -> None:
    with pytest.raises(ConfigurationError, match=r"residual_adds .*only the sums of a systolic array"):
        check_config(replace(ADDS, array=array))


def test_other_kernels_have_no_trace_of_it_in_their_identity() -> None:
    """Nor in what is rendered for them but the number that says that it is not there."""
    without, texts = replace(ADDS, residual_adds=False), []
    for config in (ADDS, without):
        texts.append(json.dumps(kernel_identity(config)))
    assert ["residual_adds" in text for text in texts] == [True, False]
    headers = [text for path, text in render_kernel("k", "0" * 8, without).items() if path.endswith("config.hpp")]
    assert all("residual_adds = false;" in text for text in headers)
    assert headers
