"""Kernels of the engines beside the array as bytes: by hand, and read back by the readers of the reference kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference_engines import WeightStream
from reference_strips import words_of_group
from reference_tiles import images_of_group

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.sparse_cluster.streams import cluster_stream
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.engines.zero_skip.streams import zero_skip_stream
from bfpga.formats.block_format import BlockFormat

ENGINES = SystolicConfig(
    columns=9,
    lanes=2,
    beside=(
        ZeroSkipNumbers(kernels_in_flight=4, kernel_height=5, kernel_width=7),
        ClusterNumbers(kernels_in_flight=4),
    ),
)
#: Clocks of one entry on the tile.
STEPS = 4


def sparse_weights(seed: int, shape: tuple[int, ...], density: float, bits: int = 8) -> np.ndarray:
    """Weights (kernels, rows, columns, channels) of the symmetric range, most of them zero."""
    rng = np.random.default_rng(seed)
    limit = (1 << (bits - 1)) - 1
    return np.where(rng.random(shape) < density, rng.integers(-limit, limit + 1, shape), 0)


def groups(config: SystolicConfig, weights: np.ndarray) -> list[tuple[int, int]]:
    """First kernel and number of kernels of each group of four."""
    return [(first, min(4, len(weights) - first)) for first in range(0, len(weights), 4)]


def zero_skip_weights(config: SystolicConfig, data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """The weights in a stream for the zero-skip engine."""
    result, stream = np.zeros(shape, int), WeightStream(data, config)
    for first, kernels in groups(config, result):
        descriptor = Descriptor(kernel_height=shape[1], kernel_width=shape[2])
        for image, entries, _ in images_of_group(descriptor, stream, kernels):
            for z, ky, kx, coefficient in entries:
                result[first + z, ky, kx, image] = coefficient
    stream.end()
    return result


def cluster_weights(config: SystolicConfig, data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """The weights in a stream for the sparse cluster; nothing lies beyond the rows and columns of the kernels."""
    words = -(-shape[3] // config.lanes)
    result, stream = np.zeros((*shape[:3], words * config.lanes), int), WeightStream(data, config)
    for first, kernels in groups(config, result):
        for word, active, _ in words_of_group(config, Descriptor(channel_words=words), stream, kernels):
            for z, lanes in active.items():
                cells = np.array(lanes)
                assert not cells[:, shape[1] :].any()
                assert not cells[:, :, shape[2] :].any()
                channels = slice(word * config.lanes, (word + 1) * config.lanes)
                result[first + z, ..., channels] = cells[:, : shape[1], : shape[2]].transpose(1, 2, 0)
    stream.end()
    assert not result[..., shape[3] :].any()
    return result[..., : shape[3]]


@pytest.mark.parametrize("density", [0.02, 0.1, 0.5, 1.0])
@pytest.mark.parametrize(("beat", "steps"), [(64, 1), (64, 4), (256, 4)])
@pytest.mark.parametrize(
    ("bits", "shape"),
    [(8, (10, 3, 3, 7)), (8, (3, 5, 7, 2)), (16, (9, 3, 2, 5)), (4, (5, 1, 1, 30)), (12, (1, 1, 1, 9))],
)
def test_the_zero_skip_engine_reads_the_weights_that_were_written(
    density: float, beat: int, steps: int, bits: int, shape: tuple[int, ...]
) -> None:
    """ZS R18, R43, R44, R46: every width of coefficients, kernels of every size, words that straddle beats."""
    config = replace(ENGINES, format=BlockFormat(mantissa_bits=bits), weight_stream_bits=beat)
    weights = sparse_weights(sum(shape), shape, density, bits)
    found = zero_skip_weights(config, zero_skip_stream(weights, config, steps), shape)
    np.testing.assert_array_equal(found, weights)


@pytest.mark.parametrize("density", [0.02, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("beat", [64, 256])
@pytest.mark.parametrize(
    ("bits", "lanes", "shape"),
    [(8, 2, (10, 3, 3, 7)), (16, 4, (9, 3, 2, 5)), (4, 1, (5, 1, 1, 30)), (5, 4, (1, 2, 3, 9))],
)
def test_the_sparse_cluster_reads_the_weights_that_were_written(
    density: float, beat: int, bits: int, lanes: int, shape: tuple[int, ...]
) -> None:
    """SC R19: kernels smaller than the units', channels that do not fill a word."""
    config = replace(ENGINES, format=BlockFormat(mantissa_bits=bits), lanes=lanes, weight_stream_bits=beat)
    weights = sparse_weights(sum(shape), shape, density, bits)
    found = cluster_weights(config, cluster_stream(weights, config), shape)
    np.testing.assert_array_equal(found, weights)


def test_entries_of_an_image_follow_its_header() -> None:
    """Image 2 of one group has two entries of 1 x 1 kernels: a header beat, two words of header, two entries."""
    weights = np.zeros((4, 1, 1, 3), int)
    weights[1, 0, 0, 2], weights[3, 0, 0, 2] = -5, 300
    config = replace(ENGINES, format=BlockFormat(mantissa_bits=16))
    words = np.frombuffer(zero_skip_stream(weights, config, STEPS), "<u4").tolist()
    header = [2 | 1 << 16 | 1 << 24, 0]
    assert words == [*header, 0x14B | 2 << 16, 2 | 3 << 24, 1 << 24 | 0xFFFB, 3 << 24 | 300]


def test_a_kernel_of_the_cluster_lies_at_the_low_rows_and_columns() -> None:
    """One weight of channel 3 at place (0, 1) of a 1 x 2 kernel: lane 1 of word 1, byte 9 + 1 of its kernel."""
    weights = np.zeros((3, 1, 2, 4), int)
    weights[2, 0, 1, 3] = -7
    beats = np.frombuffer(cluster_stream(weights, ENGINES), np.uint8).reshape(-1, 8)
    assert beats[0].tolist() == [1, 0, 1, 1, 0, 0, 0, 0]
    assert beats[1].tolist() == [4, 0, 0, 0, 0, 0, 0, 0]
    assert beats[2:].reshape(-1).tolist() == [0] * 10 + [249] + [0] * 13


def test_a_group_without_a_weight_is_a_header() -> None:
    """ZS R28, SC R19: nothing is read or computed; SPARSE reads a mask with every header."""
    weights = np.zeros((4, 3, 3, 6), int)
    assert zero_skip_stream(weights, ENGINES, STEPS) == (3 << 24).to_bytes(8, "little")
    assert cluster_stream(weights, ENGINES) == (3 << 24).to_bytes(16, "little")


def test_images_and_words_without_a_weight_are_left_out() -> None:
    """ZS R28, SC R19: of 40 channels one has weights."""
    weights = np.zeros((4, 3, 3, 40), int)
    weights[..., 21] = 1
    skipped = zero_skip_stream(weights, ENGINES, STEPS)
    assert skipped == zero_skip_stream(weights[..., :22], ENGINES, STEPS)
    assert len(skipped) == 8 + 4 * (3 + 4 * (1 + 3)) + 4
    assert len(cluster_stream(weights, ENGINES)) == 8 * (2 + 4 * 3)
