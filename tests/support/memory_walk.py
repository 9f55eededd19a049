"""A slow walk through the operations of a program with names instead of numbers in the activation memory.

Every word of the memory holds (tensor, row, column, channel word). A read that does not meet the word it should, two
columns in one bank at one time, or an address outside the memory fail.
"""

from __future__ import annotations

import numpy as np
from reference_weights import weight_kind

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import ADDS_SECOND, Descriptor, Flag, Operation
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep, Program, Tile

Address = tuple[int, int]
Word = tuple[str, int, int, int]


class MemoryWalk:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.config: KernelConfig = program.config
        self.memory: dict[Address, Word] = {}
        self.nodes = {node.name: node for node in program.nodes if isinstance(node, ArrayNode)}
        self.tiles: dict[str, list[Tile]] = {name: list(node.tiles) for name, node in self.nodes.items()}
        self.measured = {name: list(tiles) for name, tiles in self.tiles.items()}
        self.computed: dict[str, list[tuple[int, int, int]]] = {}
        self.stored: set[Word] = set()

    def run(self) -> None:
        for step in self.program.steps:
            if isinstance(step, LaunchStep):
                self.memory = {}
                for operation in step.operations:
                    self.operation(operation)
        assert all(not tiles for tiles in self.tiles.values()), "tiles without a descriptor"

    def add(self, address: Address, step: Address, pixel_words: int) -> Address:
        word, bank = address[0] + step[0], address[1] + step[1]
        return (word + pixel_words, bank - self.config.banks) if bank >= self.config.banks else (word, bank)

    def check(self, address: Address) -> Address:
        assert 0 <= address[0] < self.config.activation_words
        assert 0 <= address[1] < self.config.banks
        return address

    def operation(self, operation: KernelOperation) -> None:
        kind = Operation(operation.descriptor.operation)
        if kind in (Operation.LOAD, Operation.STORE):
            self.transfer(operation, kind)
        elif kind != Operation.WEIGHTS:
            self.compute(operation)

    def steps(self, d: Descriptor, side: str) -> tuple[Address, Address]:
        """To the next pixel of a row, and besides to the next row. Pixels that are written follow each other."""
        wrap = getattr(d, f"{side}_wrap_word"), getattr(d, f"{side}_wrap_bank")
        return (d.input_step_word, d.input_step_bank) if side == "input" else (0, 1), wrap

    def transfer(self, operation: KernelOperation, kind: Operation) -> None:
        d, part = operation.descriptor, operation.transfer
        assert part is not None
        side = "output" if kind == Operation.LOAD else "input"
        words = getattr(d, f"{side}_pixel_words")
        address = (getattr(d, f"{side}_word"), getattr(d, f"{side}_bank"))
        step, wrap = self.steps(d, side)
        spec = self.program.tensors[part.tensor]
        assert d.output_pixels == (part.y1 - part.y0) * spec.width
        assert d.output_pixels % d.output_width == 0
        assert self.add(address, step, words) == self.add(address, (0, 1), words), "pixels of a row are neighbours"
        for pixel in range(d.output_pixels):
            y, x = divmod(pixel, spec.width)
            for j in range(words):
                place = self.check((address[0] + j, address[1]))
                word = (part.tensor, part.y0 + y, x, j)
                if kind == Operation.LOAD:
                    self.memory[place] = word
                elif place in self.memory and self.memory[place][0] == part.tensor:
                    # Parts of a concatenation that are not computed yet may hold anything.
                    assert self.memory[place] == word
                    self.stored.add(word)
            address = self.add(address, step, words)
            if (pixel + 1) % d.output_width == 0:
                address = self.add(address, wrap, words)

    def columns(self, d: Descriptor, side: str) -> list[list[tuple[int, int, int, Address]]]:
        """For each group of columns: (column, output row, output column, address) of its valid pixels."""
        words = getattr(d, f"{side}_pixel_words")
        step, wrap = self.steps(d, side)
        columns = weight_kind(d, self.config).columns
        walked, address = [], (getattr(d, f"{side}_word"), getattr(d, f"{side}_bank"))
        for pixel in range(d.output_pixels):
            y, x = divmod(pixel, d.output_width)
            walked.append((pixel % columns, y, x, address))
            address = self.add(address, step, words)
            if x + 1 == d.output_width:
                address = self.add(address, wrap, words)
        return [walked[start : start + columns] for start in range(0, d.output_pixels, columns)]

    def compute(self, operation: KernelOperation) -> None:
        d, node = operation.descriptor, self.nodes[operation.layer]
        measuring = bool(d.flags & Flag.MEASURE)
        tile = (self.measured if measuring else self.tiles)[node.name].pop(0)
        assert d.output_pixels == (tile.y1 - tile.y0) * node.window.output_width
        assert d.output_rows == tile.m1 - tile.m0
        reads, writes = self.columns(d, "input"), self.columns(d, "output")
        for group, targets in zip(reads, writes, strict=True):
            self.banks(group, d.read_runs, d.read_slots)
            self.banks(targets, d.write_runs, d.write_slots)
            for _, y, x, address in group:
                assert divmod((y * d.output_width + x), d.output_width) == (y, x)
                self.window(d, node, tile, y, x, address)
            if not measuring:
                self.write(d, node, tile, targets)
        if node.adds_second:
            self.added(d, node, tile)

    def added(self, d: Descriptor, node: ArrayNode, tile: Tile) -> None:
        """The pixels of a tensor that is added follow each other as those of the results do."""
        assert d.flags & ADDS_SECOND
        address = d.added_word, d.added_bank
        for pixel in range(d.output_pixels):
            y, x = divmod(pixel, node.window.output_width)
            for j in range(-(-d.output_rows // self.config.lanes)):
                place = self.check((address[0] + j, address[1]))
                assert self.memory.get(place) == (node.inputs[1], tile.y0 + y, x, tile.m0 // self.config.lanes + j)
            address = self.add(address, (0, 1), d.added_pixel_words)

    def banks(self, group: list[tuple[int, int, int, Address]], runs: int, slots: int) -> None:
        """Columns that read or write at one time meet different banks."""
        row = group[0][1]
        times = [(y - row if runs else 0, address[1]) for _, y, _, address in group]
        assert len(set(times)) == len(times), "two columns in one bank"
        assert max(time for time, _ in times) < slots

    def window(self, d: Descriptor, node: ArrayNode, tile: Tile, y: int, x: int, address: Address) -> None:
        window, spec = node.window, self.program.tensors[node.inputs[0]]
        for ky in range(d.kernel_height):
            for kx in range(d.kernel_width):
                top, left = y * d.stride_y - d.pad_top, x * d.stride_x - d.pad_left
                row, column = top + ky * d.dilation_y, left + kx * d.dilation_x
                place = address
                for _ in range(ky):
                    place = self.add(place, (d.tap_y_word, d.tap_y_bank), d.input_pixel_words)
                for _ in range(kx):
                    place = self.add(place, (d.tap_x_word, d.tap_x_bank), d.input_pixel_words)
                if node.kind == "sum":
                    name, row, column = node.inputs[kx], tile.y0 + y, x
                else:
                    name = node.inputs[0]
                    if not (0 <= row < d.input_height and 0 <= column < d.input_width):
                        continue
                    row = (tile.y0 + y) * window.stride_y - window.pad_top + ky * window.dilation_y
                    column += max(0, -window.pad_left)
                    assert 0 <= row < spec.height
                    assert 0 <= column < spec.width
                self.channel_words(d, node, tile, place, (name, row, column))

    def channel_words(
        self, d: Descriptor, node: ArrayNode, tile: Tile, place: Address, pixel: tuple[str, int, int]
    ) -> None:
        """The words of every row block that belong to the pixel; blocks may reach behind it, never elsewhere."""
        first = 0
        if node.groups > 1:
            first = tile.m0 // (node.channels // node.groups) * int(node.weights.shape[3]) // self.config.lanes
        elif node.kind != "gemm":
            first = tile.m0 // self.config.lanes
        for block in range(d.blocks):
            for j in range(d.channel_words):
                offset = block * d.block_step + j
                address = self.check((place[0] + offset, place[1]))
                if first + offset < d.input_pixel_words:
                    assert self.memory.get(address) == (*pixel, first + offset)

    def write(self, d: Descriptor, node: ArrayNode, tile: Tile, targets: list[tuple[int, int, int, Address]]) -> None:
        first, window = (node.channel_offset + tile.m0) // self.config.lanes, node.window
        for _, y, x, address in targets:
            row, column = window.first_y + (tile.y0 + y) * window.spread_y, window.first_x + x
            for j in range(-(-d.output_rows // self.config.lanes)):
                place = self.check((address[0] + j, address[1]))
                self.memory[place] = (node.output, row, column, first + j)
            self.computed.setdefault(node.name, []).append((tile.y0 + y, x, tile.m0))


def check_coverage(program: Program) -> None:
    """Every output of every node is computed once, and its tiles are those of the descriptors in order."""
    for node in program.nodes:
        if isinstance(node, ArrayNode):
            count = np.zeros((node.window.output_height, node.channels), np.int64)
            for tile in node.tiles:
                count[tile.y0 : tile.y1, tile.m0 : tile.m1] += 1
            assert (count == 1).all()
