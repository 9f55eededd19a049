"""Kernel segments ENTRY32, ENTRY16 and BITMAP: layout, streams of segments, sizes, damaged streams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from compressed_cases import DENSITIES, only_data_errors, sparse_array, vector, vector_words
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_compressed import words_of_bits, words_of_values

from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.compressed.kernel_decoder import decode_kernels
from bfpga.formats.compressed.kernels import (
    KernelFormat,
    KernelSegments,
    encode_kernels,
    kernel_bytes,
    kernel_segments,
    segment_words,
    smallest_kernel_format,
)

ENTRY32, ENTRY16, BITMAP = KernelFormat
ZERO_SKIP = [f"zs{name}" for name in (
    "01_basic", "02_volume", "03_all_zero", "04_all_dense", "05_single_coefficient", "06_kernel_larger_than_tile",
    "07_stride2", "08_padding", "09_pointwise", "10_depthwise", "11_ragged_lanes", "12_z_groups", "13_hazard",
)]  # fmt: skip
SIZES = st.tuples(st.integers(1, 7), st.integers(1, 7)) | st.sampled_from([(16, 16), (1, 16), (6, 6), (4, 8), (3, 11)])


def segment(entries: list[tuple[int, int, int, int]], size: tuple[int, int], **fields: int) -> KernelSegments:
    """One segment of entries (z, ky, kx, coefficient)."""
    columns = np.array(entries, np.int64).reshape(-1, 4).T
    values = {"kz": 0, "z_base": 0, "kernels": 1, **fields}
    header = [np.array([values[name]]) for name in ("kz", "z_base", "kernels")]
    return KernelSegments(size, *header, np.array([len(entries)]), *columns)


def reference_words(dense: npt.NDArray[np.int64], step: int, fmt: KernelFormat) -> list[int]:
    """The stream of a dense array, segment by segment and kernel by kernel."""
    words: list[int] = []
    height, width = dense.shape[2:]
    for kz, channel in enumerate(dense):
        for base in range(0, len(channel), step):
            kernels = channel[base : base + step]
            places = [tuple(int(n) for n in place) for place in np.argwhere(kernels)]
            words += [0x4B | 1 << 8 | int(fmt) << 12 | kz << 16, len(places) | base << 16 | (len(kernels) - 1) << 24]
            found = [(z, ky, kx, int(kernels[z, ky, kx])) for z, ky, kx in places]
            if fmt == ENTRY32:
                words += [c & 0xFFFF | kx << 16 | ky << 20 | z << 24 for z, ky, kx, c in found]
            elif fmt == ENTRY16:
                halves = [c & 0xFF | kx << 8 | ky << 12 for _, ky, kx, c in found]
                words += words_of_bits([half >> n & 1 for half in halves for n in range(16)])
            else:
                words.append(height - 1 | (width - 1) << 4)
                for kernel in kernels:
                    held = kernel.reshape(-1).tolist()
                    words += words_of_bits([int(value != 0) for value in held])
                    words += words_of_values([value for value in held if value], 1)
    return words


def assert_equal(one: KernelSegments, other: KernelSegments) -> None:
    assert one.kernel_size == other.kernel_size
    for name in ("kz", "z_base", "kernels", "entries", "z", "ky", "kx", "coefficient"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


# --- vectors


def test_words_of_the_sparse_clusters_vector() -> None:
    """SC R143, ZS R43: sc24, every format, both ways"""
    content = vector("sc24_formats")
    entries = [tuple(entry) for entry in content["input"]["kernel_entries_z_ky_kx_c"]]
    whole = segment(entries, (2, 2), kz=content["input"]["kz"], kernels=2)
    first = segment([entry for entry in entries if entry[0] == 0], (2, 2), kz=content["input"]["kz"])
    cases = [("entry32", whole, ENTRY32), ("entry16_z0", first, ENTRY16), ("bitmap", whole, BITMAP)]
    for name, segments, fmt in cases:
        words = vector_words(content["expected"][f"kernel_{name}"])
        assert encode_kernels(segments, fmt).tolist() == words
        decoded, found = decode_kernels(np.array(words, np.uint32), (2, 2))
        assert found == fmt
        assert_equal(decoded, segments)


def test_words_of_the_zero_skip_engines_vector() -> None:
    """ZS R43, ZS R46: zs14; kernels 1 and 2 of the segment have no entry"""
    content = vector("zs14_formats")
    entries = [tuple(entry) for entry in content["input"]["kernel_entries_z_ky_kx_c"]]
    segments = segment(entries, (3, 3), kz=content["input"]["kz"], z_base=8, kernels=4)
    for name, fmt in (("kernel_entry32", ENTRY32), ("kernel_bitmap", BITMAP)):
        words = vector_words(content["expected"][name])
        assert encode_kernels(segments, fmt).tolist() == words
        assert_equal(decode_kernels(np.array(words, np.uint32), (3, 3))[0], segments)


@pytest.mark.parametrize("name", ZERO_SKIP)
def test_entries_of_the_zero_skip_engines_layers(name: str) -> None:
    """ZS R2, ZS R7, ZS R12, ZS R43, ZS R44, ZS R46: C[kz][Z][ky][kx]; zs01 has 5 entries of 9, blocks beside the
    diagonal of zs10 none, and kernels without entries (zs03) come back as zeros"""
    weights = vector(name)["weights"]
    dense = np.array(weights["coefficients"])
    segments = kernel_segments(dense)
    assert segments.entries.tolist() == [len(entries) for entries in weights["entries_z_ky_kx_c"]]
    flat = [entry for entries in weights["entries_z_ky_kx_c"] for entry in entries]
    columns = np.array([segments.z, segments.ky, segments.kx, segments.coefficient]).T.tolist()
    assert columns == flat
    assert segments.coefficient.size == vector(name)["expected"]["nonzero"]
    for fmt in (ENTRY32, BITMAP):
        decoded, _ = decode_kernels(encode_kernels(segments, fmt), segments.kernel_size)
        np.testing.assert_array_equal(decoded.coefficients(*dense.shape[:2]), dense)


@pytest.mark.parametrize("name", ["sc03_packed", "sc05_conflict", "sc12_pointwise", "sc16_sparse_kernel"])
def test_zero_weights_of_the_sparse_clusters_kernels_get_no_entry(name: str) -> None:
    """SC R19, SC R146, SC R147: sc16 has 4 entries of 9; ascending raster order"""
    content = vector(name)
    kernel = np.array(content["weights"]["kernel"])
    segments = kernel_segments(kernel[None, None])
    assert segments.coefficient.size == content["expected"].get("nonzero_weights", np.count_nonzero(kernel))
    assert segments.coefficient.tolist() == [value for value in kernel.ravel().tolist() if value]
    assert (np.diff(segments.ky.astype(int) * kernel.shape[1] + segments.kx) > 0).all()


# --- layers


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 5), st.integers(1, 9), SIZES, DENSITIES, st.integers(1, 9), st.integers(0, 1 << 30))
def test_streams_of_segments_come_back(
    channels: int, kernels: int, size: tuple[int, int], density: float, step: int, seed: int
) -> None:
    """SC R58, SC R143, ZS R43, ZS R44: any layer in every format that can hold it; sizes are known before"""
    dense = sparse_array((channels, kernels, *size), density, seed)
    segments = kernel_segments(dense, step)
    for fmt in KernelFormat:
        if fmt == ENTRY16 and min(step, kernels) > 1:
            continue
        words = encode_kernels(segments, fmt)
        assert words.tolist() == reference_words(dense, step, fmt)
        assert words.nbytes == kernel_bytes(segments, fmt)
        decoded, found = decode_kernels(words.tobytes(), size)
        assert found == fmt
        assert_equal(decoded, segments)
        np.testing.assert_array_equal(decoded.coefficients(channels, kernels), dense)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), SIZES, st.integers(0, 1 << 30))
def test_entries_keep_their_order_where_the_format_has_one(
    channels: int, kernels: int, size: tuple[int, int], seed: int
) -> None:
    """SC R147: ENTRY32 and ENTRY16 keep any order inside a segment, BITMAP is in raster order"""
    raster = kernel_segments(sparse_array((channels, kernels, *size), 0.5, seed), 1 if seed % 2 else 6)
    order = np.lexsort((np.random.default_rng(seed).random(raster.z.size), raster.segment_of_entry()))
    shuffled = replace(raster, **{name: getattr(raster, name)[order] for name in ("z", "ky", "kx", "coefficient")})
    for fmt in (ENTRY32, ENTRY16, BITMAP):
        if fmt != ENTRY16 or (raster.kernels == 1).all():
            decoded, _ = decode_kernels(encode_kernels(shuffled, fmt), size)
            assert_equal(decoded, raster if fmt == BITMAP else shuffled)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 3), st.integers(1, 5), SIZES, DENSITIES, st.integers(0, 1 << 30))
def test_coefficients_of_16_bits_are_entries_of_32(
    channels: int, kernels: int, size: tuple[int, int], density: float, seed: int
) -> None:
    dense = sparse_array((channels, kernels, *size), density, seed, 2)
    dense[0, 0, 0, 0] = -32768
    segments = kernel_segments(dense)
    assert smallest_kernel_format(segments) == ENTRY32
    decoded, _ = decode_kernels(encode_kernels(segments, ENTRY32), size)
    np.testing.assert_array_equal(decoded.coefficients(channels, kernels), dense)
    with pytest.raises(DataError, match=r"BITMAP coefficients: -?[0-9]+ at .* does not fit 8 bits"):
        encode_kernels(segments, BITMAP)


def test_coefficients_that_look_like_headers_are_no_headers() -> None:
    """in ENTRY32 a coefficient 0x014B, in BITMAP masks and bytes that spell one"""
    entries = [(0, 0, 0, 0x014B), (0, 0, 1, 0x014B)]
    segments = segment(entries, (2, 2), kz=3)
    double = KernelSegments(
        (2, 2), *(np.tile(getattr(segments, name), 2) for name in ("kz", "z_base", "kernels", "entries")),
        *(np.tile(getattr(segments, name), 2) for name in ("z", "ky", "kx", "coefficient")),
    )  # fmt: skip
    assert_equal(decode_kernels(encode_kernels(double, ENTRY32), (2, 2))[0], double)
    dense = np.zeros((2, 3, 1, 16), np.int64)
    dense[:, :, 0, [0, 1, 3, 6, 8, 13]] = (0x4B, 0x21, 1, 0, 0, 2)  # mask 0x214B and first word 0x0001214B
    dense[1, 2] = 0
    segments = kernel_segments(dense, 2)
    assert_equal(decode_kernels(encode_kernels(segments, BITMAP), (1, 16))[0], segments)


def test_the_largest_segment_is_full_and_a_larger_one_is_refused() -> None:
    """256 kernels of 16 x 16 have one place more than a segment counts"""
    dense = np.ones((1, 256, 16, 16), np.int8)
    with pytest.raises(DataError, match="entries 0 is 65536, it must be from 0 to 65535"):
        encode_kernels(kernel_segments(dense), ENTRY32)
    dense[0, 200, 3, 4] = 0
    segments = kernel_segments(dense)
    for fmt in (ENTRY32, BITMAP):
        assert_equal(decode_kernels(encode_kernels(segments, fmt), (16, 16))[0], segments)
    assert kernel_segments(np.ones((1, 256, 16, 16), np.int8), 128).entries.tolist() == [32768, 32768]


# --- sizes


@pytest.mark.parametrize(("count", "words"), [(1, 2), (4, 2), (5, 3), (8, 3), (9, 4)])
def test_words_of_a_3x3_kernel(count: int, words: int) -> None:
    """SC 2.5, ZS 2.4: ENTRY32 n, BITMAP 1 + n / 4, ENTRY16 2 + n / 2 with its own header"""
    dense = np.zeros((1, 100, 9), int)
    dense[:, :, :count] = 5
    segments = kernel_segments(dense.reshape(1, 100, 3, 3))
    assert segment_words(segments, BITMAP).tolist() == [3 + 100 * words]
    assert segment_words(segments, ENTRY32).tolist() == [2 + 100 * count]
    single = kernel_segments(dense.reshape(1, 100, 3, 3), 1)
    assert set(segment_words(single, ENTRY16).tolist()) == {2 + -(-count // 2)}
    assert smallest_kernel_format(segments) == (ENTRY32 if count < 3 else BITMAP)


def test_the_smallest_format_is_one_that_can_hold_the_segments() -> None:
    """single kernels of many entries are smallest as ENTRY16 when they are large and thin"""
    single = segment([(0, 0, 0, 1), (0, 15, 15, 2), (0, 7, 7, 3)], (16, 16))
    assert smallest_kernel_format(single) == ENTRY16
    assert smallest_kernel_format(replace(single, kernels=np.array([2]))) == ENTRY32
    twice = segment([(0, 0, 0, 1)] * 9, (3, 3), kernels=2)
    assert smallest_kernel_format(twice) == ENTRY32
    assert decode_kernels(encode_kernels(twice, ENTRY32), (3, 3))[0].coefficients(1, 2)[0, 0, 0, 0] == 9
    assert smallest_kernel_format(kernel_segments(np.zeros((1, 2, 3, 3), int))) == ENTRY32


# --- what is refused


@pytest.mark.parametrize(
    ("dense", "step", "error", "message"),
    [
        (np.zeros((2, 3, 3), int), 1, DataError, r"expected coefficients \(kz, Z, ky, kx\), got shape \(2, 3, 3\)"),
        (np.zeros((2, 0, 3, 3), int), 1, DataError, r"got shape \(2, 0, 3, 3\)"),
        (np.zeros((1, 1, 17, 3), int), 1, ConfigurationError, r"\(17, 3\), it must be two sides from 1 to 16"),
        (np.zeros((1, 257, 1, 1), int), 1, DataError, "257 kernels in one pass, at most 256: split into groups"),
        (np.zeros((1, 4, 1, 1), int), 0, ConfigurationError, "0 kernels a segment, it must be 1 to 256"),
        (np.zeros((1, 1, 1, 1)), 1, DataError, "expected whole numbers, got float64"),
        (np.full((1, 1, 1, 1), 40000), 1, DataError, r"40000 at \(0, 0, 0, 0\) does not fit 16 bits"),
    ],
)
def test_arrays_that_are_no_layer_are_refused(dense: Any, step: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kernel_segments(dense, step)


@pytest.mark.parametrize(
    ("segments", "fmt", "message"),
    [
        (segment([(0, 0, 3, 1)], (3, 3)), ENTRY32, "kx 0 is 3, it must be from 0 to 2"),
        (segment([(0, 1, 1, 1), (0, 3, 0, 1)], (3, 3)), ENTRY32, "ky 1 is 3, it must be from 0 to 2"),
        (segment([(0, -1, 0, 1)], (3, 3)), ENTRY32, "ky 0 is -1"),
        (segment([(0, 0, 0, 1), (2, 0, 0, 1)], (3, 3), kernels=2), ENTRY32, "entry 1 is for kernel 2 of a"),
        (segment([(-1, 0, 0, 1)], (3, 3)), BITMAP, "entry 0 is for kernel -1"),
        (segment([(0, 0, 0, 0)], (3, 3)), ENTRY32, "the coefficient of entry 0 is zero, but zeros get no entry"),
        (segment([(0, 0, 0, 1)], (3, 3), kz=65536), ENTRY32, "kz 0 is 65536, it must be from 0 to 65535"),
        (segment([(0, 0, 0, 1)], (3, 3), z_base=256), ENTRY32, "z_base 0 is 256, it must be from 0 to 255"),
        (segment([(0, 0, 0, 1)], (3, 3), kernels=257), ENTRY32, "kernels 0 is 257, it must be from 1 to 256"),
        (segment([(0, 0, 0, 1)], (3, 3), kernels=2), ENTRY16, "segment 0 has 2 kernels, the format holds one"),
        (segment([(0, 0, 0, 200)], (3, 3)), ENTRY16, "200 at .0,. does not fit 8 bits"),
        (segment([(0, 0, 1, 3), (0, 0, 0, 1), (0, 0, 1, 2)], (3, 3)), BITMAP, "entry 2 is the second one of its place"),
        (replace(segment([(0, 0, 0, 1)], (3, 3)), kx=np.array([0, 1])), ENTRY32, r"1 entries, but kx has shape \(2,\)"),
    ],
)
def test_entries_outside_of_their_kernel_or_segment_are_refused(
    segments: KernelSegments, fmt: KernelFormat, message: str
) -> None:
    """ZS R49, SC R154"""
    with pytest.raises(DataError, match=message):
        encode_kernels(segments, fmt)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the stream has 0 words, a header alone has 2"),
        ([0x0000014B], "the stream has 1 words"),
        ([0x0000024B, 0], "word 0 is 0x0000024B, no header of a segment of version 1"),
        ([0x0000314B, 0], "word 0 is 0x0000314B, no header"),
        ([0x0000014B, 2, 1], "segment 0 at word 0 is cut off: the stream has 3 words"),
        ([0x0000014B, 1, 1, 0x0000014B], "segment 0 ends at word 3, but no ENTRY32 header"),
        ([0x0000014B, 1, 1, 7, 7], "segment 0 ends at word 3, but no ENTRY32 header of its kernel size follows there"),
        ([0x0000014B, 1, 1, 0x0000114B, 0], "segment 0 ends at word 3, but no ENTRY32 header"),
        ([0x0000014B, 1, 0x00020001], "kx 0 is 2, it must be from 0 to 1"),
        ([0x0000014B, 1, 0x00300001], "ky 0 is 3, it must be from 0 to 1"),
        ([0x0000014B, 1, 0x01000001], "entry 0 is for kernel 1 of a segment of 1 kernels"),
        ([0x0000014B, 1, 0x00010000], "the coefficient of entry 0 is zero"),
        ([0x0000114B, 0x01000001, 1], "segment 0 has 2 kernels, ENTRY16 holds one"),
        ([0x0000114B, 1, 0x00010001], "the half that pads the last word of an ENTRY16 segment is not zero"),
        ([0x0000214B, 0], "segment 0 at word 0 is cut off"),
        ([0x0000214B, 0, 0x22, 0], "size word of the first segment is 0x00000022, it must be 0x00000011 for"),
        ([0x0000214B, 1, 0x11, 1], "segment 0 at word 0 is cut off: the stream has 4 words"),
        ([0x0000214B, 1, 0x11, 16, 1], "a mask has a bit beyond the 4 places of its kernel"),
        ([0x0000214B, 1, 0x11, 1 << 20, 1], "a mask has a bit beyond the 4 places of its kernel"),
        ([0x0000214B, 2, 0x11, 1, 1], "segment 0 counts 2 entries, its masks hold 1"),
        ([0x0000214B, 1, 0x11, 1, 0x0101], "the bytes that pad the values of a kernel are not zero"),
        ([0x0000214B, 1, 0x11, 1, 0], "the coefficient of entry 0 is zero"),
    ],
)
def test_streams_that_no_encoder_writes_are_refused(words: list[int], message: str) -> None:
    """ZS R49: of 2 x 2 kernels"""
    with pytest.raises(DataError, match=message):
        decode_kernels(np.array(words, np.uint32), (2, 2))


@pytest.mark.parametrize("fmt", KernelFormat)
def test_a_stream_that_is_cut_off_anywhere_is_refused(fmt: KernelFormat) -> None:
    """unless it ends with a segment"""
    segments = kernel_segments(sparse_array((2, 3, 3, 3), 0.5, 1), 1 if fmt == ENTRY16 else 2)
    words = encode_kernels(segments, fmt)
    whole = set(np.cumsum(segment_words(segments, fmt)).tolist())
    for size in range(words.size):
        assert only_data_errors(lambda size=size: decode_kernels(words[:size], (3, 3))) == (size in whole)  # type: ignore[misc]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(KernelFormat), SIZES, st.integers(0, 1 << 30), st.data())
def test_damaged_streams_decode_to_what_they_say_or_are_refused(
    fmt: KernelFormat, size: tuple[int, int], seed: int, data: st.DataObject
) -> None:
    """No other error; what decodes is written the same way again, but for the order of entries that are equal"""
    words = encode_kernels(kernel_segments(sparse_array((2, 3, *size), 0.3, seed), 1 if fmt == ENTRY16 else 2), fmt)
    for _ in range(data.draw(st.integers(1, 3))):
        bit = data.draw(st.integers(0, 32 * words.size - 1))
        words[bit // 32] ^= np.uint32(1 << bit % 32)
    if only_data_errors(lambda: decode_kernels(words, size)):
        segments, found = decode_kernels(words, size)
        assert encode_kernels(segments, found).tolist() == words.tolist()


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(KernelFormat), st.lists(st.integers(0, 300) | st.integers(0, 0xFFFFFFFF), max_size=20),
    SIZES, st.integers(0, 0xFFFFFFFF),
)  # fmt: skip
def test_random_words_behind_a_header_are_decoded_or_refused(
    fmt: KernelFormat, numbers: list[int], size: tuple[int, int], second: int
) -> None:
    words = np.array([0x14B | int(fmt) << 12, second, *numbers], np.uint32)
    only_data_errors(lambda: decode_kernels(words, size))


def test_an_entry_beyond_the_dense_array_is_refused() -> None:
    segments = segment([(1, 0, 0, 1)], (1, 1), kz=2, z_base=3, kernels=2)
    assert segments.coefficients(3, 5)[2, 4, 0, 0] == 1
    for channels, kernels in ((2, 5), (3, 4)):
        with pytest.raises(DataError, match=f"an entry lies beyond {channels} channels of {kernels} kernels"):
            segments.coefficients(channels, kernels)
