"""SPARSE in plain Python integers: pieces of a strip, and the elements of each that are not zero."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from reference_engines import (
    Computed,
    Part,
    Rectangle,
    Sums,
    WeightStream,
    ceil_div,
    drain_clocks,
    group_clocks,
    kernel_groups,
    signed,
)

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor
from bfpga.contract.engine_numbers import DEPENDENCE_LATENCY, ENGINE_DEPTH
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers


@dataclass
class Piece:
    """Rows and columns of the rectangle that belong to a unit, and its sums of the full grid around them.

    sums: (kernel, bank row, bank column, word row, word column) -> sum.
    """

    rows: range
    columns: range
    sums: dict[tuple[int, int, int, int, int], int]

    def key(self, z: int, row: int, column: int, side: int) -> tuple[int, int, int, int, int]:
        """Where a cell of the full grid lies: words count from those of the piece's first cell."""
        first = self.rows.start // side, self.columns.start // side
        return z, row % side, column % side, row // side - first[0], column // side - first[1]


def limits(counts: list[int], pieces: int, most: int) -> list[int]:
    """Section 6: a line belongs to the piece in whose share its middle lies; lines of zeros alone count alike.

    Unless that left this piece or those behind it without a line, or with more than ``most``.
    """
    counts = counts if any(counts) else [1] * len(counts)
    lines, total = len(counts), sum(counts)
    middles = [sum(counts[:line]) + Fraction(count, 2) for line, count in enumerate(counts)]
    found = [0]
    for behind in range(pieces - 1, -1, -1):
        start = found[-1]
        least = max(min(start + 1, lines), lines - behind * most)
        largest = max(least, min(start + most, lines - behind))
        share = Fraction(total * len(found), pieces)
        before = sum(middle < share for middle in middles)
        found.append(min(max(before, least), largest))
    assert all(after - before <= most for before, after in itertools.pairwise(found)), "a piece is too large"
    return found


def pieces_of(config: SystolicConfig, d: Descriptor, rectangle: Rectangle, build: ClusterNumbers) -> list[Piece]:
    """The partition: bands of rows, every band with columns of its own."""
    lanes, step = config.lanes, d.count_step

    def counted(rows: range, columns: range) -> int:
        channels = [c for c in range(lanes * d.channel_words) if c // lanes % step == 0]
        return sum(rectangle[y][x][c] != 0 for y in rows for x in columns for c in channels)

    height, width = range(d.input_height), range(d.input_width)
    counts = [counted(range(y, y + 1), width) if step else 1 for y in height]
    bands = limits(counts, build.grid_rows, d.piece_rows)
    pieces = []
    for top, bottom in itertools.pairwise(bands):
        rows = range(top, bottom)
        cuts = limits(
            [counted(rows, range(x, x + 1)) if step else 1 for x in width], build.grid_columns, d.piece_columns
        )
        pieces += [Piece(rows, range(left, right), {}) for left, right in itertools.pairwise(cuts)]
    return pieces


def partition_clocks(d: Descriptor, build: ClusterNumbers, segments: int) -> int:
    clocks = d.input_height + build.grid_rows * d.input_width
    if not d.count_step:
        return clocks
    words = ceil_div(d.channel_words, d.count_step)
    return clocks + 2 * d.input_height * segments * words + (1 + build.grid_rows) * ENGINE_DEPTH


def sparse(config: SystolicConfig, d: Descriptor, rectangle: Rectangle, data: bytes) -> Computed:
    """Section 6: every unit takes the elements of its piece that are not zero, the drain adds what units hold."""
    build, stream, sums = config.numbers_of(ClusterNumbers), WeightStream(data, config), Sums()
    assert max(d.kernel_height, d.kernel_width) <= build.kernel
    assert 0 <= d.pad_top < d.kernel_height
    assert 0 <= d.pad_left < d.kernel_width
    segments = ceil_div(d.input_width, build.load_pixels)
    pieces = pieces_of(config, d, rectangle, build)
    clocks = max(config.columns, build.load_pixels) + config.operation_depth + partition_clocks(d, build, segments)
    for first, kernels in kernel_groups(d, build.kernels_in_flight):
        parts = []
        for word, active, beats in words_of_group(config, d, stream, kernels):
            most = max(unit_elements(config, d, rectangle, piece, word, active) for piece in pieces)
            compute = max(DEPENDENCE_LATENCY, len(active)) * most
            parts.append(Part(compute, max(d.input_height * segments, len(active) * beats)))
        side = build.kernel
        clocks += group_clocks(parts, header=2) + drain_clocks(config, d, kernels, (side, side))
        for z in range(kernels):
            for row in range(d.output_pixels // d.output_width):
                for column in range(d.output_width):
                    sums[first + z, row, column] = drained(d, pieces, z, row, column, side)
        assert not any(value for piece in pieces for value in piece.sums.values()), "the next group begins at zero"
    stream.end()
    return Computed(sums, clocks)


#: [lane][row][column]
Weights = list[list[list[int]]]


def words_of_group(
    config: SystolicConfig, d: Descriptor, stream: WeightStream, kernels: int
) -> Iterator[tuple[int, dict[int, Weights], int]]:
    """Section 4: number of each channel word with the weights of its active kernels, and the beats of a kernel."""
    build = config.numbers_of(ClusterNumbers)
    side, bits = build.kernel, config.format.container_bits
    count = config.lanes * side * side
    beats = ceil_div(count * bits, config.weight_stream_bits)
    before = -1
    while True:
        header = stream.beat()
        word, number, last, empty = header & 0xFFFF, header >> 16 & 0xFF, header >> 24 & 1, header >> 25 & 1
        mask = stream.beat()
        assert header >> 26 == 0
        assert mask >> kernels == 0
        assert mask.bit_count() == number
        if empty:
            assert before == -1
            assert number == 0
            return
        assert before < word < d.channel_words, "channel words ascend"
        assert number > 0
        before, active = word, {}
        for z in (z for z in range(kernels) if mask >> z & 1):
            packed = stream.number(beats * stream.beat_bytes)
            values = [signed(packed >> n * bits, bits) for n in range(count)]
            active[z] = [
                [values[(lane * side + a) * side :][:side] for a in range(side)] for lane in range(config.lanes)
            ]
            assert any(values)
            assert packed >> count * bits == 0
        yield word, active, beats
        if last:
            return


def unit_elements(
    config: SystolicConfig, d: Descriptor, rectangle: Rectangle, piece: Piece, word: int, active: dict[int, Weights]
) -> int:
    """A unit takes all of its elements of a channel word; their number."""
    build = config.numbers_of(ClusterNumbers)
    found, touched = 0, set()
    for y in piece.rows:
        for x in piece.columns:
            for lane in range(config.lanes):
                value = rectangle[y][x][word * config.lanes + lane]
                if value:
                    found += 1
                    touched.add((y, x // build.load_pixels))
                    for z, weights in active.items():
                        add_products(d, piece, build, z, y, x, value, weights[lane])
    assert len(touched) <= build.memory_words, "a unit's memory is too small"
    return found


def add_products(
    d: Descriptor, piece: Piece, build: ClusterNumbers, z: int, y: int, x: int, value: int, weights: list[list[int]]
) -> None:
    """One element times the weights of a kernel: as many cells of the full grid, in as many banks."""
    side = build.kernel
    words = build.grid_words(len(piece.columns), d.kernel_width), build.accumulator_words
    for a in range(d.kernel_height):
        for b in range(d.kernel_width):
            row, column = y + d.kernel_height - 1 - a, x + d.kernel_width - 1 - b
            if is_output(d, row, column):
                key = piece.key(z, row, column, side)
                assert 0 <= key[4] < words[0]
                assert 0 <= key[3] * words[0] + key[4] < words[1], "a bank is too small"
                piece.sums[key] = piece.sums.get(key, 0) + value * weights[a][b]


def is_output(d: Descriptor, row: int, column: int) -> bool:
    """Whether a cell of the full grid is an output of the strip."""
    r, rest_r = divmod(row - (d.kernel_height - 1 - d.pad_top), d.stride_y)
    c, rest_c = divmod(column - (d.kernel_width - 1 - d.pad_left), d.stride_x)
    return rest_r == 0 == rest_c and 0 <= r < d.output_pixels // d.output_width and 0 <= c < d.output_width


def drained(d: Descriptor, pieces: list[Piece], z: int, r: int, c: int, side: int) -> int:
    """The sum of one output over all units, which is zero in their banks afterwards."""
    row, column = r * d.stride_y + d.kernel_height - 1 - d.pad_top, c * d.stride_x + d.kernel_width - 1 - d.pad_left
    return sum(piece.sums.pop(piece.key(z, row, column, side), 0) for piece in pieces)
