"""The bytes of descriptors, tensors and weights on the kernel's streams (docs/systolic-array.md section 3)."""

from __future__ import annotations

import numpy as np
import pytest

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import DESCRIPTOR_WORDS, Descriptor, Operation
from bfpga.contract.program import ArrayNode, BlockTensor, KernelOperation, Transfer
from bfpga.engines.kernel import streams
from bfpga.errors import DataError, ProgramError
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.containers import unpack_elements

CONFIG = KernelConfig(columns=2, rows=4, lanes=2)


def gemm_node(weights: np.ndarray, groups: int = 1, **fields: object) -> ArrayNode:
    return ArrayNode("layer", "gemm", ("x",), "y", len(weights), groups=groups, weights=weights, **fields)


def test_weight_words_are_ordered_by_block_tap_and_channel_word() -> None:
    """R59, R60: a word holds rows x lanes mantissas; row r, lane l is element r * lanes + l."""
    weights = np.random.default_rng(0).integers(-127, 128, (6, 1, 2, 3)).astype(np.int8)
    words = unpack_elements(streams.pack_weights(gemm_node(weights), CONFIG, 0, 6), 8).reshape(2, 2, 2, 4, 2)
    for b, t, j, r, lane in np.ndindex(words.shape):
        m, c = b * 4 + r, j * 2 + lane
        assert words[b, t, j, r, lane] == (weights[m, 0, t, c] if m < 6 and c < 3 else 0)  # R74: odd K


def test_weight_words_are_padded_to_whole_beats() -> None:
    config = KernelConfig(rows=3, lanes=1)
    data = streams.pack_weights(gemm_node(np.ones((3, 1, 1, 2), np.int8)), config, 0, 3)
    assert data == bytes([1, 1, 1, 0, 0, 0, 0, 0]) * 2


def test_depthwise_weights_lie_on_the_diagonal_of_each_block() -> None:
    weights = np.arange(1, 9).reshape(8, 1, 1, 1)
    node = gemm_node(weights, groups=8)
    assert streams.input_window(node, CONFIG, 0, 8) == streams.InputWindow(0, 2, 2)
    assert streams.input_window(node, CONFIG, 4, 8) == streams.InputWindow(2, 0, 2)
    words = unpack_elements(streams.pack_weights(node, CONFIG, 0, 8), 8).reshape(2, 2, 4, 2)
    matrix = words.transpose(0, 2, 1, 3).reshape(2, 4, 4)
    assert (matrix == [np.diag([1, 2, 3, 4]), np.diag([5, 6, 7, 8])]).all()


def test_groups_that_do_not_fill_blocks_evenly_are_refused() -> None:
    node = gemm_node(np.ones((18, 1, 1, 6)), groups=3)
    assert streams.input_window(node, CONFIG, 4, 8) == streams.InputWindow(0, 0, 6)
    with pytest.raises(ProgramError, match="uneven groups"):
        streams.input_window(node, CONFIG, 0, 18)


def test_uniform_weights_are_sent_once() -> None:
    node = gemm_node(np.full((8, 3, 3, 1), 5), groups=8, uniform_weights=True)
    assert len(streams.pack_weights(node, CONFIG, 0, 8)) == 2 * 8


def test_parameters_are_one_beat_a_row() -> None:
    node = gemm_node(np.ones((3, 1, 1, 2)), bias=np.array([1, -2, 70000]), weight_exponents=np.array([-7, 3, -9]))
    beats = np.frombuffer(streams.pack_parameters(node, CONFIG, 1, 3), "<i4").reshape(4, 2)
    assert beats[:, 0].tolist() == [-2, 70000, 0, 0]
    assert (beats[:, 1] << 16 >> 16).tolist() == [3, -9, 0, 0]


@pytest.mark.parametrize("bits", [4, 8, 11, 18])
@pytest.mark.parametrize("stream_bits", [32, 64, 128])
def test_stored_rows_come_back_as_they_were_loaded(bits: int, stream_bits: int) -> None:
    """R6, R19: exponents come back with the mantissas; input and output have the same form."""
    config = KernelConfig(BlockFormat(mantissa_bits=bits), lanes=1, rows=1, stream_bits=stream_bits)
    mantissa = np.random.default_rng(bits).integers(-8, 8, (2, 3, 5, 3)).astype(np.int32)
    tensor = BlockTensor(mantissa, np.array([-3, 4], np.int32))
    load = Descriptor(Operation.LOAD, output_pixels=10, output_width=5, output_pixel_words=3)
    store = Descriptor(Operation.STORE, output_pixels=10, output_width=5, input_pixel_words=3)
    operations = [KernelOperation("a", load, Transfer("x", 1, 3)), KernelOperation("b", store, Transfer("y", 0, 2))]
    packet = streams.input_packet(operations, config, {"x": tensor}, sample=1)
    words = DESCRIPTOR_WORDS * 4
    assert Descriptor.from_words(np.frombuffer(packet[:words], "<i4")) == load
    stored = streams.decode_output(operations, config, packet[words:-words])
    result = BlockTensor(np.zeros((1, 2, 5, 3), np.int32), np.zeros(1, np.int32))
    streams.write_rows(stored, {"y": result})
    assert (result.mantissa[0] == mantissa[1, 1:3]).all()
    assert result.exponent[0] == 4


def test_pixels_of_a_group_lie_side_by_side_word_by_word() -> None:
    """docs/systolic-array.md, section 3: four pixels a group; zeros fill the pixel, the row and the beat."""
    rows = np.zeros((2, 5, 3), np.int32)
    for y, x, channel in np.ndindex(rows.shape):
        rows[y, x, channel] = 100 * y + 10 * x + channel + 1
    data = unpack_elements(streams.pack_rows(rows, CONFIG), 8)
    assert data[:8].tolist() == [1, 2, 11, 12, 21, 22, 31, 32]
    assert data[8:16].tolist() == [3, 0, 13, 0, 23, 0, 33, 0]
    assert data[16:32].tolist() == [41, 42, 0, 0, 0, 0, 0, 0, 43, 0, 0, 0, 0, 0, 0, 0]
    assert data[32] == 101
    assert len(data) == 64


def test_rows_without_a_gap_may_be_one_long_row() -> None:
    load = Descriptor(Operation.LOAD, output_pixels=10, output_width=10, output_pixel_words=1)
    store = Descriptor(Operation.STORE, output_pixels=10, output_width=10, input_pixel_words=1)
    operations = [KernelOperation("a", load, Transfer("x", 0, 5)), KernelOperation("b", store, Transfer("x", 0, 5))]
    tensor = BlockTensor(np.arange(20, dtype=np.int32).reshape(1, 5, 2, 2), np.zeros(1, np.int32))
    packet = streams.input_packet(operations, CONFIG, {"x": tensor})[DESCRIPTOR_WORDS * 4 : -DESCRIPTOR_WORDS * 4]
    assert packet[8:28] == bytes(range(20))
    assert len(packet) == 8 * (1 + 3)
    assert (streams.decode_output(operations, CONFIG, packet)[0].mantissa == tensor.mantissa[0]).all()


def test_a_packet_that_does_not_fit_its_operations_is_refused() -> None:
    load = Descriptor(Operation.LOAD, output_pixels=9, output_width=3, output_pixel_words=1)
    operation = KernelOperation("first", load, Transfer("x", 0, 3))
    tensor = BlockTensor(np.zeros((1, 3, 4, 2), np.int8), np.zeros(1, np.int32))
    with pytest.raises(DataError, match=r"first: rows 0\.\.3 of tensor x have shape"):
        streams.input_packet([operation], CONFIG, {"x": tensor})
    with pytest.raises(DataError, match="tensor x has no data"):
        streams.input_packet([operation], CONFIG, {})
    store = KernelOperation("s", Descriptor(Operation.STORE, output_pixels=1), Transfer("y", 0, 1))
    with pytest.raises(DataError, match="sent 8 bytes; its stores send 16"):
        streams.decode_output([store], CONFIG, bytes(8))
