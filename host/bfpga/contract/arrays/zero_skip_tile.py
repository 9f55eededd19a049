"""The zero-skip engine in tile form: each weight that is not zero multiplies all cells of a map
(processes/zero_skip_tile)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from bfpga.contract.arrays.base import Array, Kernel, WidthOrNone, Zeros, parameters, weight_words
from bfpga.contract.arrays.skip_array import SKIP_PARAMETERS
from bfpga.contract.arrays.sparse_cluster import GRID_SUMS, MAP_BITS, MAP_COMMANDS, OUTPUT_BITS, MapArray
from bfpga.contract.descriptor import Operation
from bfpga.contract.number_group import NumberGroup
from bfpga.contract.process_command import ProcessCommand, command
from bfpga.contract.process_stream import ARRAY, COMMAND_BITS, SHALLOW, ProcessStream

#: The processes of a tile in the place of the array, besides the one that keeps sums of a map.
STEP_READER, TILE = "step_reader", "tile"


@dataclass(frozen=True)
class ZeroSkipTile(MapArray):
    """A tile with the sums of ``rows`` x ``columns`` cells of a map; ``parallel`` rows of them are computed at once."""

    kind: ClassVar[str] = "zero_skip_tile"
    engine: ClassVar[str] = "bfpga.engines.zero_skip_tile.engine"
    template_flags: ClassVar[frozenset[str]] = frozenset({"cluster", "tile"})
    command_space: ClassVar[str] = "tile"
    zeros: ClassVar[Zeros] = "weights"
    stores_blocks: ClassVar[bool] = True

    rows: WidthOrNone = 12
    columns: WidthOrNone = 15
    parallel: WidthOrNone = 3

    @property
    def lines(self) -> int:
        return 1 << (max(self.rows, self.columns) - 1).bit_length()

    @property
    def blocks(self) -> int:
        blocks = max(1, self.rows // self.kernel) * max(1, self.columns // self.kernel)
        return 1 << (blocks - 1).bit_length()

    @property
    def unit_products(self) -> int:
        return self.parallel * self.columns

    def size_text(self, kernel: Kernel) -> str:
        return f"{self.parallel} x {self.columns}"

    def shape_text(self, kernel: Kernel) -> str:
        return f"tile of {self.size_text(kernel)} sums at once"

    def holds_map(self, rows: int, columns: int) -> bool:
        """Whether there is room for the sums of a map."""
        halo = self.kernel - 1
        return rows + halo <= self.rows and columns + halo <= self.columns

    def beats(self) -> dict[str, str]:
        return super().beats() | {"steps": "TileStep"}

    def processes(self, kernel: Kernel) -> tuple[str, ...]:
        return STEP_READER, TILE, GRID_SUMS

    def weight_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        """As of a sparse cluster."""
        yield weight_words(kernel, "weight_words", STEP_READER)
        yield parameters(kernel, SKIP_PARAMETERS)

    def inner_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        cell, block = kernel.lanes * kernel.format.mantissa_bits, self.taps * kernel.accumulator_bits
        step = kernel.weight_bits + 2 * ((self.kernel - 1).bit_length() + 1) + (kernel.rows - 1).bit_length() + 3
        yield ProcessStream("kernels", ARRAY, STEP_READER, COMMAND_BITS, SHALLOW)
        yield ProcessStream("outputs", ARRAY, GRID_SUMS, OUTPUT_BITS, SHALLOW)
        yield ProcessStream("maps", ARRAY, TILE, MAP_BITS, SHALLOW)
        yield ProcessStream("cells", ARRAY, TILE, cell, SHALLOW)
        yield ProcessStream("steps", STEP_READER, TILE, step, SHALLOW)
        yield ProcessStream("blocks", TILE, GRID_SUMS, block, SHALLOW)
        yield from super().inner_streams(kernel)

    def commands(self) -> tuple[ProcessCommand, ...]:
        """Stored words come block by block, as many of each."""
        return (
            *MAP_COMMANDS,
            command(
                "weights",
                (Operation.WEIGHTS, Operation.GEMM),
                "flags blocks output_rows weight_base weight_block_step weight_words parameter_base parameter_rows "
                "groups after_fills after_reads",
            ),
        )

    def number_groups(self, kernel: Kernel) -> tuple[NumberGroup, ...]:
        taps = max(kernel.rows, self.step_distance) * self.taps
        return self.map_numbers(
            cluster_steps=taps, has_tile=True, tile_rows=self.rows, tile_columns=self.columns,
            tile_parallel=self.parallel,
        )  # fmt: skip


def tile_array(array: Array) -> ZeroSkipTile:
    """A tile; ValueError for another array."""
    if not isinstance(array, ZeroSkipTile):
        raise ValueError(f"{array.kind} is no tile")
    return array
