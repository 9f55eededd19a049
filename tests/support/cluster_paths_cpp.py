"""Runs what surrounds the C++ units of the sparse cluster (tests/cpp/cluster_paths.cpp): payloads, sums, pooling."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from cluster_cpp import SimulationError
from cpp_units import library

from bfpga.devices.csim import Integers
from bfpga.engines.sparse_cluster.partition.geometry import Rectangle
from bfpga.formats.compressed.pieces import PIECE_DESCRIPTOR_WORDS

#: Builds of the payload readers and writers: rows and columns of a tile, bits of a value.
PIECE_BUILDS = (((4, 4), 8), ((2, 2), 16), ((3, 5), 8))
#: Rows and columns of their largest piece.
LARGEST_PIECE = (33, 21)
#: Builds of the pooling units: size and stride of a window.
POOL_BUILDS = (((2, 2), (2, 2)), ((3, 3), (2, 2)), ((1, 4), (3, 1)), ((3, 1), (1, 2)), ((1, 1), (1, 1)))
POOL_KINDS = ("max", "average", "sum")
REDUCTION_LANES = (1, 2, 3, 9)
#: Bits of the stitcher's sums.
STITCH_BITS = 20


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def _checked(function: Callable[..., int], *arguments: object) -> int:
    text = ctypes.create_string_buffer(200)
    result = function(*arguments, text)
    if result < 0:
        raise SimulationError(text.value.decode())
    return result


def decode_piece(integers: Integers, build: int, words: np.ndarray) -> list[tuple[int, int, int]]:
    """(row, column, value) of a COO32 or BITMAP piece in the order in which they leave."""
    words = np.ascontiguousarray(words, np.uint32)
    values = np.zeros((int(words[6]) & 0xFFFFFF, 3), np.int32)
    decode = library("cluster_paths", integers).unit_cluster_decode
    _checked(decode, build, _pointer(words), len(words), _pointer(values))
    return [(row, column, value) for row, column, value in values.tolist()]


def encode_piece(
    integers: Integers, build: int, payload: int, value_bytes: int, exponent: int, cells: np.ndarray
) -> np.ndarray:
    """The words of an output piece, descriptor first."""
    fields = np.array([payload, value_bytes, *cells.shape, exponent], np.int32)
    words = np.zeros(PIECE_DESCRIPTOR_WORDS + 4 * cells.size + 64, np.uint32)
    cells = np.ascontiguousarray(cells, np.int32)
    encode = library("cluster_paths", integers).unit_cluster_encode
    return words[: _checked(encode, build, _pointer(fields), _pointer(cells), _pointer(words))]


def header_again(integers: Integers, words: np.ndarray) -> np.ndarray:
    """A descriptor decoded and encoded."""
    again = np.zeros(PIECE_DESCRIPTOR_WORDS, np.uint32)
    library("cluster_paths", integers).unit_cluster_header(_pointer(np.ascontiguousarray(words)), _pointer(again))
    return again


def compute_piece(integers: Integers, words: np.ndarray, kernel: np.ndarray) -> tuple[np.ndarray, int, int]:
    """A BITMAP piece with tiles of 4 x 4, decoded and convolved: full grid, rounds (6 lanes), skipped tiles."""
    words, kernel = np.ascontiguousarray(words, np.uint32), np.ascontiguousarray(kernel, np.int32)
    full = np.zeros(((int(words[3]) & 0xFFFF) + 2, (int(words[3]) >> 16) + 2), np.int64)
    counted = np.zeros(2, np.int64)
    compute = library("cluster_paths", integers).unit_cluster_compute
    _checked(compute, _pointer(words), len(words), _pointer(kernel), _pointer(full), _pointer(counted))
    return full, int(counted[0]), int(counted[1])


@dataclass(frozen=True)
class Reduction:
    """outputs: (pixels, outputs). partials: sum of the adder tree in every round, one after the other."""

    outputs: np.ndarray
    partials: list[int]
    rounds: int
    issued: int
    idle: int


def reduce_pixels(integers: Integers, lanes: int, matrix: np.ndarray, pixels: np.ndarray) -> Reduction:
    """Pixels (pixels, inputs) with a matrix (outputs, inputs) on the reduction path."""
    shape = np.array([len(pixels), *matrix.shape], np.int32)
    rounds = len(matrix) * sum(-(-int(np.count_nonzero(pixel)) // lanes) for pixel in pixels)
    outputs, partials = np.zeros((len(pixels), len(matrix)), np.int64), np.zeros(rounds, np.int64)
    counted = np.zeros(3, np.int64)
    arrays = (shape, np.ascontiguousarray(matrix, np.int32), np.ascontiguousarray(pixels, np.int32))
    pointers = map(_pointer, (*arrays, outputs, partials, counted))
    assert library("cluster_paths", integers).unit_cluster_reduce(lanes, *pointers) == 0
    return Reduction(outputs, partials.tolist(), *counted.tolist())


def pool_maps(integers: Integers, build: int, maps: np.ndarray, kind: str, *, relu: bool) -> np.ndarray:
    """Two channels (rows, columns, 2) through ReLU and pooling: (output rows, output columns, 2)."""
    rows, columns, channels = maps.shape
    assert channels == 2
    fields = np.array([rows, columns, relu, POOL_KINDS.index(kind)], np.int32)
    outputs, maps = np.zeros(maps.size, np.int64), np.ascontiguousarray(maps, np.int32)
    pool = library("cluster_paths", integers).unit_cluster_pool
    count = pool(build, _pointer(fields), _pointer(maps), _pointer(outputs))
    size, stride = POOL_BUILDS[build]
    shape = tuple(max(0, (cells - n) // step + 1) for cells, n, step in zip((rows, columns), size, stride, strict=True))
    return outputs[:count].reshape(*shape, 2)


@dataclass(frozen=True)
class ReadOut:
    """Outputs (r, c) are the cells (first_row + r * stride_rows, ...) of a map, zero outside."""

    rows: int
    columns: int
    first_row: int = 0
    first_column: int = 0
    stride_rows: int = 1
    stride_columns: int = 1


def stitch_pieces(
    integers: Integers, shape: tuple[int, int], pieces: Sequence[tuple[Rectangle, np.ndarray]], window: ReadOut
) -> np.ndarray:
    """Results at their places in a map of this shape, summed modulo 2**STITCH_BITS, and what is read out of it."""
    places = np.array([(p.row0, p.column0, p.rows, p.columns) for p, _ in pieces], np.int32)
    results = np.concatenate([np.zeros(0, np.int64), *(np.asarray(values, np.int64).ravel() for _, values in pieces)])
    fields = np.array([getattr(window, name) for name in ReadOut.__dataclass_fields__], np.int32)
    outputs = np.zeros((window.rows, window.columns), np.int64)
    pointers = map(_pointer, (places, results, fields, outputs))
    stitch = library("cluster_paths", integers).unit_cluster_stitch
    _checked(stitch, _pointer(np.array(shape, np.int32)), len(pieces), *pointers)
    return outputs


def output_counts(integers: Integers, values: np.ndarray) -> tuple[list[int], list[int], int]:
    """Non-zeros of each row, of each column, in all; at most 20 rows and columns."""
    rows, columns = values.shape
    counts = np.zeros(rows + columns + 1, np.int32)
    values = np.ascontiguousarray(values, np.int32)
    library("cluster_paths", integers).unit_cluster_counts(rows, columns, _pointer(values), _pointer(counts))
    found = counts.tolist()
    return found[:rows], found[rows:-1], found[-1]


def tree_sum(integers: Integers, terms: Sequence[int]) -> int:
    """The sum of 1 to 9 terms in a tree of adders."""
    function = library("cluster_paths", integers).unit_cluster_tree
    function.restype = ctypes.c_int64
    return int(function(len(terms), _pointer(np.array(terms, np.int32))))
