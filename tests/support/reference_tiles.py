"""ZERO_SKIP in plain Python integers: a tile that stands still meets the coefficients that are not zero."""

from __future__ import annotations

from collections.abc import Iterator

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
from bfpga.contract.engine_numbers import DEPENDENCE_LATENCY
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers

#: kernel of the group, row, column, coefficient
Entry = tuple[int, int, int, int]


def zero_skip(config: SystolicConfig, d: Descriptor, rectangle: Rectangle, data: bytes) -> Computed:
    """Section 5: entry by entry on a tile that stands still."""
    build, stream, sums = config.numbers_of(ZeroSkipNumbers), WeightStream(data, config), Sums()
    height, width = d.output_pixels // d.output_width, d.output_width
    assert height <= build.tile_height
    assert width <= build.tile_width
    assert d.kernel_height <= build.kernel_height
    assert d.kernel_width <= build.kernel_width
    assert max(d.stride_y, d.stride_x) <= build.stride
    assert 0 <= d.pad_top < d.kernel_height
    assert 0 <= d.pad_left < d.kernel_width
    assert d.pad_top + d.input_height <= (height - 1) * d.stride_y + d.kernel_height
    assert d.pad_left + d.input_width <= (width - 1) * d.stride_x + d.kernel_width
    steps = ceil_div(height, build.rows_parallel) * ceil_div(width, build.lanes)
    load = d.input_height * ceil_div(d.input_width, build.load_pixels)
    clocks = max(config.columns, build.load_pixels) + config.operation_depth
    for first, kernels in kernel_groups(d, build.kernels_in_flight):
        sums |= {(first + z, y, x): 0 for z in range(kernels) for y in range(height) for x in range(width)}
        parts = []
        for image, entries, decode in images_of_group(d, stream, kernels):
            for z, ky, kx, c in entries:
                for y in range(height):
                    for x in range(width):
                        sums[first + z, y, x] += c * cell(d, rectangle, y, x, ky, kx, image)
            compute = entry_clocks(in_order(entries, d.entry_order), steps)
            parts.append(Part(compute, max(load, decode)))
        clocks += group_clocks(parts, header=1) + drain_clocks(config, d, kernels, (1, config.columns))
    stream.end()
    return Computed(sums, clocks)


def cell(d: Descriptor, rectangle: Rectangle, y: int, x: int, ky: int, kx: int, channel: int) -> int:
    """What output (y, x) meets at a place of its kernel."""
    row, column = y * d.stride_y + ky - d.pad_top, x * d.stride_x + kx - d.pad_left
    if 0 <= row < d.input_height and 0 <= column < d.input_width:
        return rectangle[row][column][channel]
    return 0


def images_of_group(d: Descriptor, stream: WeightStream, kernels: int) -> Iterator[tuple[int, list[Entry], int]]:
    """Section 4: number of each image with its entries, and the clocks that the decoder takes for it."""
    before = -1
    while True:
        header = stream.beat()
        image, segments, last, empty = header & 0xFFFF, header >> 16 & 0xFF, header >> 24 & 1, header >> 25 & 1
        assert header >> 26 == 0
        if empty:
            assert before == -1
            assert segments == 0
            return
        assert image > before, "images ascend"
        assert segments > 0
        before, entries, decode = image, [], 0
        for _ in range(segments):
            found, clocks = decoded_segment(d, stream, image)
            entries += found
            decode += clocks
        stream.pad()
        assert entries
        assert all(z < kernels and ky < d.kernel_height and kx < d.kernel_width for z, ky, kx, _ in entries)
        yield image, entries, decode
        if last:
            return


def decoded_segment(d: Descriptor, stream: WeightStream, image: int) -> tuple[list[Entry], int]:
    """Entries of the next segment (SC 2.5), and its clocks: docs/zero-skip.md, section 4."""
    first, second = stream.number(4), stream.number(4)
    assert first & 0xFFF == 0x14B
    assert first >> 16 == image
    count, base, kernels, kind = second & 0xFFFF, second >> 16 & 0xFF, (second >> 24) + 1, first >> 12 & 0xF
    if kind == 2:
        return bitmap_entries(d, stream, base, kernels, count), 3 + kernels * d.kernel_height + count
    entries = []
    for _ in range(count):
        if kind == 0:
            word = stream.number(4)
            entries.append((base + (word >> 24), word >> 20 & 15, word >> 16 & 15, signed(word, 16)))
        else:
            assert kind == 1
            assert kernels == 1
            half = stream.number(2)
            entries.append((base, half >> 12, half >> 8 & 15, signed(half, 8)))
    if kind == 1 and count % 2:
        assert stream.number(2) == 0
    assert all(c != 0 for *_, c in entries)
    return entries, 2 + count


def bitmap_entries(d: Descriptor, stream: WeightStream, base: int, kernels: int, count: int) -> list[Entry]:
    """A mask and the coefficients of its bits, kernel by kernel."""
    assert stream.number(4) == d.kernel_height - 1 | (d.kernel_width - 1) << 4
    entries, cells = [], d.kernel_height * d.kernel_width
    for z in range(kernels):
        mask = stream.number(4 * ceil_div(cells, 32))
        places = [place for place in range(cells) if mask >> place & 1]
        assert mask >> cells == 0
        entries += [(base + z, *divmod(place, d.kernel_width), signed(stream.number(1), 8)) for place in places]
        assert stream.number(-len(places) % 4) == 0
    assert len(entries) == count
    return entries


def in_order(entries: list[Entry], order: int) -> list[Entry]:
    """The order in which the lanes apply them; those of one kernel always in raster order."""
    of_kernel: dict[int, list[Entry]] = {}
    for entry in entries:
        of_kernel.setdefault(entry[0], []).append(entry)
    for listed in of_kernel.values():
        assert [entry[1:3] for entry in listed] == sorted({entry[1:3] for entry in listed}), "not in raster order"
    if order == 0:
        return sorted(entries, key=lambda entry: entry[:3])
    if order == 1:
        return sorted(entries, key=lambda entry: (entry[1:3], entry[0]))
    assert order == 2
    turn = {id(entry): number for listed in of_kernel.values() for number, entry in enumerate(listed)}
    return sorted(entries, key=lambda entry: (turn[id(entry)], entry[0]))


def entry_clocks(entries: list[Entry], steps: int) -> int:
    """An entry starts the latency of a sum after the last one of its kernel, or later."""
    clock, earliest = 0, dict[int, int]()
    for z, *_ in entries:
        start = max(clock, earliest.get(z, 0))
        earliest[z] = start + DEPENDENCE_LATENCY
        clock = start + steps
    return clock
