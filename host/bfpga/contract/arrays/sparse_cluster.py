"""The sparse cluster: units that each compute a piece of a map (processes/sparse_cluster)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from bfpga.contract.arrays.base import Array, Kernel, WidthOrNone, Words, Zeros, operands, parameters, weight_words
from bfpga.contract.arrays.skip_array import SKIP_FLAGS, SKIP_PARAMETERS, WindowArray
from bfpga.contract.descriptor import Operation
from bfpga.contract.number_group import NumberGroup, number_group
from bfpga.contract.process_command import COMMANDS, ProcessCommand, command, with_fields
from bfpga.contract.process_stream import (
    ARRAY,
    COMMAND_BITS,
    POST,
    SHALLOW,
    STORE,
    ProcessStream,
)
from bfpga.formats.checked_fields import Between

#: How the units of a sparse cluster work.
ClusterVariant = Literal["A", "B", "C", "D", "E"]
ClusterForm = Literal["overlap_add", "halo"]
#: Steps from one of a kernel to its next one in a unit, at least: what a sum takes; and where a product may be held
#: back for a cycle; and where a step takes the cycles in which the window of a kernel leaves, or more.
SUM_DISTANCE = 4
MERGE_DISTANCE = SUM_DISTANCE + 1
WINDOW_CLOCKS = 4
WINDOW_DISTANCE = 2
#: The processes of a sparse cluster in the place of the array, without its units; the array feeds and controls them.
PARTITION, DISTRIBUTOR, STEP_MAKER, BROADCAST, COLLECTOR, GRID_SUMS = CLUSTER = (
    "partition", "distributor", "step_maker", "broadcast", "collector", "grid_sums",
)  # fmt: skip
#: Bits of a map to cut, further ones with a halo, of the limits of a piece without the turns of its units, of a map to
#: compute, of the outputs of a map; steps that wait for a unit; words of operands for which there is room before a
#: credit, for each column.
PARTITION_BITS, HALO_BITS, LIMITS_BITS, MAP_BITS, OUTPUT_BITS = 95, 6, 132, 64, 102
CLUSTER_AHEAD, COLUMN_OPERANDS = 64, 8
#: Words of records of maps that may wait for a STORE: a block of memory.
TOLD_WORDS = 1024
#: Steps of a map that await credits.
MAP_QUEUE = 16
#: What the C++ of clusters takes the numbers of the kernel from.
CLUSTER_CONFIG = "bfpga::ClusterConfig<Config>"
#: How large the map is that the scratchpad reads, and what the cluster does with it.
MAP_COMMANDS = (
    with_fields(
        COMMANDS[0], "map_groups map_cells most_moves part_words parts_down parts_across read_height read_width"
    ),
    command(
        "array",
        (Operation.GEMM,),
        "flags output_pixels output_width group_columns kernel_height kernel_width stride_y stride_x pad_top pad_left "
        "input_height input_width channel_words blocks map_groups most_moves work_difference map_cells joined_rows "
        "joined_columns parts_down parts_across told_words",
    ),
)


@dataclass(frozen=True)
class MapArray(WindowArray):
    """An array that reads whole maps as one run; sums of all cells, its full grid, come before outputs.

    Kernels have ``kernel`` rows and columns at most, ``rows`` of the kernel's of them are in flight.
    """

    header: ClassVar[str] = "sparse_cluster/cell_feeder.hpp"
    simulation: ClassVar[tuple[str, str]] = ("sparse_cluster/multiplying.hpp", "ClusterMultiplying")
    zeros: ClassVar[Zeros] = "activations"
    computes_runs: ClassVar[bool] = True
    reads_maps: ClassVar[bool] = True

    kernel: WidthOrNone = 3

    @property
    @abstractmethod
    def lines(self) -> int:
        """Rows and columns of a map at most."""

    @property
    @abstractmethod
    def blocks(self) -> int:
        """Blocks of a map's full grid that have room."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of units, each for a piece of a map."""
        return 1, 1

    @property
    def units(self) -> int:
        """Units of the grid."""
        return self.grid[0] * self.grid[1]

    @property
    def most_moves(self) -> int:
        """Moves of limits of a map at most."""
        return 0

    @property
    def has_halo(self) -> bool:
        """Whether pieces own outputs and share the cells of a halo (SC R29)."""
        return False

    @property
    def indexes_products(self) -> bool:
        """Whether units take values of a block at once: those of variants A to D."""
        return False

    @property
    def taps(self) -> int:
        """Weights of the largest kernel."""
        return self.kernel * self.kernel

    @property
    def lists_taps(self) -> bool:
        """Whether steps are weights of single taps, or of two, not all weights of a kernel."""
        return True

    @property
    def step_distance(self) -> int:
        """Steps from one of a kernel to its next one, at least."""
        return SUM_DISTANCE

    @property
    def step_clocks(self) -> int:
        """Cycles of a step at most."""
        return 1

    @property
    @abstractmethod
    def unit_products(self) -> int:
        """Products of a unit in a cycle."""

    def most_move_clocks(self, moves: int) -> int:
        """Cycles that so many moves of limits take at most."""
        return 0

    def word_types(self) -> dict[str, str]:
        return {name: f"bfpga::wire_t<bfpga::{beat}<{CLUSTER_CONFIG}>>" for name, beat in self.beats().items()}

    def flags(self) -> frozenset[str]:
        return super().flags() | {"indexed"} if self.lists_taps else super().flags()

    def beats(self) -> dict[str, str]:
        """Words of its streams."""
        return {
            "partitions": "PartitionBeat", "counted": "MapCellBeat", "limits": "LimitsBeat",
            "grid_limits": "LimitsBeat", "maps": "MapBeat", "grid_maps": "MapBeat", "cells": "MapCellBeat",
            "kernels": "KernelsBeat", "outputs": "OutputsBeat", "steps": "StepBeat", "blocks": "BlockBeat",
        }  # fmt: skip

    def operand_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        yield replace(operands(kernel, SKIP_FLAGS), depth=max(SHALLOW, COLUMN_OPERANDS * kernel.columns))

    def sum_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        yield ProcessStream("sums", GRID_SUMS, POST, kernel.columns * kernel.accumulator_bits, SHALLOW)

    def skip_groups(self, kernel: Kernel) -> int:
        return self.units

    def skip_products(self, kernel: Kernel) -> int:
        return self.units * self.unit_products

    def chunk_words(self, kernel: Kernel) -> int:
        return kernel.lanes

    def queue_words(self) -> int:
        return MAP_QUEUE

    def run_passes(self, kernel: Kernel) -> int:
        """A power of two that holds a whole map and all of its outputs."""
        groups = -(-((self.lines + self.kernel - 1) ** 2) // kernel.columns)
        return 1 << (-(-groups // 2) - 1).bit_length()

    def map_numbers(self, **own: int | bool) -> tuple[NumberGroup, ...]:
        """The numbers of C++ that a cluster and a tile share; own: those that differ from these."""
        numbers = {
            "cluster_rows": 1, "cluster_columns": 1, "cluster_kernel": self.kernel, "cluster_words": 64,
            "cluster_queue": 64, "cluster_steps": 0, "cluster_ahead": CLUSTER_AHEAD, "cluster_lines": self.lines,
            "cluster_blocks": self.blocks, "cluster_indexed": self.lists_taps, "cluster_products": 4,
            "cluster_weights": 1, "cluster_adds_pairs": False, "cluster_shifts": False, "cluster_halo": False,
            "has_tile": False, "tile_rows": 0, "tile_columns": 0, "tile_parallel": 0,
        }  # fmt: skip
        return (
            number_group(
                "Sparse cluster: grid of its units, rows and columns of the largest kernel, blocks of sums of a piece, "
                "words that wait for a unit, steps of a channel, steps that wait, lines of the largest map, blocks of "
                "its full grid; whether steps are listed by taps, lanes of units that take values of a block at once, "
                "weights of a kernel, whether products of a cell are added to each other; whether sums are shifted "
                "below products of all values of a block; whether pieces own outputs and share cells; whether a tile "
                "takes the place of the units, rows and columns of its sums, rows at once",
                **(numbers | own),
            ),
        )


@dataclass(frozen=True)
class SparseCluster(MapArray):
    """A grid of ``rows`` x ``columns`` units.

    A unit holds ``words`` blocks of sums for each kernel in flight, ``queue`` words of its piece wait for it. A map has
    ``map_lines`` rows and columns at most, and ``map_blocks`` blocks of its full grid have room. Pieces are balanced
    until they differ by ``threshold`` percentage points at most, with ``moves`` moves at most; 0: they are of equal
    size. Units of variant E multiply one value by the weights of a kernel, those of A all cells of a block of the map
    by one weight; those of the others have ``lanes`` lanes: B for values of a block and one weight, C and D for half as
    many values and two weights. Pieces share no cell (overlap_add), or each owns outputs and has the cells that these
    need (halo).
    """

    kind: ClassVar[str] = "sparse_cluster"
    engine: ClassVar[str] = "bfpga.engines.sparse_cluster.engine"
    template_flags: ClassVar[frozenset[str]] = frozenset({"cluster", "cuts_maps"})
    command_space: ClassVar[str] = "cluster"
    cuts_maps: ClassVar[bool] = True

    rows: WidthOrNone = 2
    columns: WidthOrNone = 2
    words: Words = 64
    queue: Words = 64
    map_lines: Words = 64
    map_blocks: Words = 512
    threshold: Annotated[int, Between(0, 100)] = 3
    moves: Annotated[int, Between(0, 1023)] = 256
    variant: ClusterVariant = "E"
    form: ClusterForm = "overlap_add"
    lanes: WidthOrNone = 4

    @property
    def lines(self) -> int:
        return self.map_lines

    @property
    def blocks(self) -> int:
        return self.map_blocks

    @property
    def grid(self) -> tuple[int, int]:
        return self.rows, self.columns

    @property
    def most_moves(self) -> int:
        return self.moves

    @property
    def has_halo(self) -> bool:
        return self.form == "halo"

    @property
    def indexes_products(self) -> bool:
        return self.variant != "E"

    @property
    def shifts_window(self) -> bool:
        """Whether units take all cells of a block, and move their sums below the products: those of variant A."""
        return self.variant == "A"

    @property
    def lists_taps(self) -> bool:
        return self.indexes_products and not self.shifts_window

    @property
    def merges_products(self) -> bool:
        """Whether products of a unit collide in banks of sums and wait for each other: those of variants C and D."""
        return self.variant in ("C", "D")

    @property
    def step_weights(self) -> int:
        """Weights of a kernel that multiply the values of a block at once."""
        return 2 if self.merges_products else 1

    @property
    def block_values(self) -> int:
        """Values of a block that units of variants A to D take at once; of A all cells."""
        return self.taps if self.shifts_window else self.lanes // self.step_weights

    @property
    def step_lists(self) -> int:
        """Lists of steps of a channel: one with all weights of a kernel, or one for each tap, or for two of them."""
        return -(-self.taps // self.step_weights) if self.lists_taps else 1

    @property
    def step_distance(self) -> int:
        if self.shifts_window:
            return WINDOW_DISTANCE
        return MERGE_DISTANCE if self.merges_products else SUM_DISTANCE

    @property
    def step_clocks(self) -> int:
        """Units of variant A go through the taps of a kernel."""
        return max(WINDOW_CLOCKS, self.taps) if self.shifts_window else 1

    @property
    def unit_products(self) -> int:
        return self.block_values * self.step_weights if self.indexes_products else self.taps

    def size_text(self, kernel: Kernel) -> str:
        return f"{self.units} x {self._products_text}"

    def shape_text(self, kernel: Kernel) -> str:
        return f"{self.units} units x {self._products_text} products"

    @property
    def _products_text(self) -> str:
        """Products of a unit: its lanes, or the weights of a kernel."""
        return str(self.lanes) if self.lists_taps else f"{self.kernel} x {self.kernel}"

    def most_move_clocks(self, moves: int) -> int:
        return moves * (2 * self.units + 2) * self.map_lines

    @property
    def unit_names(self) -> tuple[str, ...]:
        """The processes of the units, band by band."""
        return tuple(f"unit_{unit}" for unit in range(self.units))

    @property
    def gathers(self) -> tuple[str, ...]:
        """The processes in front of units of variants A to D, which put micro-tiles together."""
        return tuple(f"gather_{unit}" for unit in range(self.units)) if self.indexes_products else ()

    @property
    def merges(self) -> tuple[str, ...]:
        """The processes after units of variants C and D, which add products and hold back those that collide."""
        return tuple(f"merge_{unit}" for unit in range(self.units)) if self.merges_products else ()

    def beats(self) -> dict[str, str]:
        beats = super().beats()
        for unit in range(self.units):
            beats |= {f"pieces_{unit}": "PieceBeat", f"steps_{unit}": "StepBeat", f"sums_{unit}": "BlockBeat"}
            if self.indexes_products:
                beats[f"tiles_{unit}"] = "WholeTileBeat" if self.shifts_window else "TileBeat"
            if self.merges_products:
                beats[f"rounds_{unit}"] = "RoundBeat"
        return beats

    def flags(self) -> frozenset[str]:
        found = {"merges": self.merges_products, "shifts": self.shifts_window}
        return super().flags() | {flag for flag, holds in found.items() if holds}

    def templates(self) -> dict[str, str]:
        """One for all units, and for what stands before and after them."""
        unit = {"A": "shift_window_unit", "B": "indexed_unit", "C": "packed_unit", "D": "packed_unit", "E": "unit"}
        return {
            **dict.fromkeys(self.unit_names, unit[self.variant]),
            **dict.fromkeys(self.gathers, "gather"),
            **dict.fromkeys(self.merges, "merge"),
        }

    def processes(self, kernel: Kernel) -> tuple[str, ...]:
        return (*CLUSTER, *self.gathers, *self.unit_names, *self.merges)

    def weight_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        """Rows of a block leave after its weights: what they wait for are sums of blocks whose weights have gone."""
        yield weight_words(kernel, "weight_words", STEP_MAKER)
        yield parameters(kernel, SKIP_PARAMETERS)

    def inner_streams(self, kernel: Kernel) -> Iterator[ProcessStream]:
        """Bits as in bfpga/processes/sparse_cluster."""
        cell, block = kernel.lanes * kernel.format.mantissa_bits, self.taps * kernel.accumulator_bits
        place, phase = (self.words - 1).bit_length(), (self.kernel - 1).bit_length() + 1
        piece, step = cell + place + 2 * phase + 5, self.taps * kernel.weight_bits + (kernel.rows - 1).bit_length() + 4
        lane = max(1, (kernel.lanes - 1).bit_length())
        # Of all cells of a block none says where it is.
        value = kernel.format.mantissa_bits + (0 if self.shifts_window else 2 * phase)
        tile = self.block_values * value + lane + place + 6
        yield ProcessStream("kernels", ARRAY, STEP_MAKER, COMMAND_BITS, SHALLOW)
        yield ProcessStream("outputs", ARRAY, GRID_SUMS, OUTPUT_BITS, SHALLOW)
        yield ProcessStream("partitions", ARRAY, PARTITION, PARTITION_BITS + HALO_BITS * self.has_halo, SHALLOW)
        yield ProcessStream("counted", ARRAY, PARTITION, cell, SHALLOW)
        limits = LIMITS_BITS + 2 * self.units.bit_length()
        yield ProcessStream("limits", PARTITION, DISTRIBUTOR, limits, SHALLOW)
        yield ProcessStream("grid_limits", PARTITION, COLLECTOR, limits, SHALLOW)
        yield ProcessStream("cuts", PARTITION, DISTRIBUTOR, COMMAND_BITS, SHALLOW)
        yield ProcessStream("told", DISTRIBUTOR, STORE, COMMAND_BITS, TOLD_WORDS, TOLD_WORDS)
        yield ProcessStream("maps", ARRAY, DISTRIBUTOR, MAP_BITS, SHALLOW)
        yield ProcessStream("grid_maps", ARRAY, COLLECTOR, MAP_BITS, SHALLOW)
        yield ProcessStream("cells", ARRAY, DISTRIBUTOR, cell, SHALLOW)
        yield ProcessStream("steps", STEP_MAKER, BROADCAST, step, SHALLOW)
        takers, adders = self.gathers or self.unit_names, self.merges or self.unit_names
        for number, (taker, unit, adder) in enumerate(zip(takers, self.unit_names, adders, strict=True)):
            yield ProcessStream(f"pieces_{number}", DISTRIBUTOR, taker, piece, self.queue)
            if taker != unit:
                yield ProcessStream(f"tiles_{number}", taker, unit, tile, SHALLOW)
            yield ProcessStream(f"steps_{number}", BROADCAST, unit, step, CLUSTER_AHEAD)
            if adder != unit:
                yield ProcessStream(f"rounds_{number}", unit, adder, self._round_bits(kernel), SHALLOW)
            yield ProcessStream(f"sums_{number}", adder, COLLECTOR, block, SHALLOW)
        yield ProcessStream("blocks", COLLECTOR, GRID_SUMS, block, SHALLOW)
        yield from super().inner_streams(kernel)

    def _round_bits(self, kernel: Kernel) -> int:
        """Bits of the products of a round, each with its bank and block; of the clashes of banks, of a block itself."""
        place, plane = (self.words - 1).bit_length(), max(1, (kernel.rows - 1).bit_length())
        bank = max(1, (self.taps - 1).bit_length())
        product = kernel.format.mantissa_bits + kernel.weight_bits + bank + place + 1
        return self.block_values * self.step_weights * product + place + plane + self.taps + 3

    def commands(self) -> tuple[ProcessCommand, ...]:
        """A STORE brings records of maps."""
        return (*MAP_COMMANDS, with_fields(COMMANDS[3], "told_words"))

    def number_groups(self, kernel: Kernel) -> tuple[NumberGroup, ...]:
        return self.map_numbers(
            cluster_rows=self.rows, cluster_columns=self.columns, cluster_words=self.words,
            cluster_queue=self.queue, cluster_steps=max(kernel.rows, self.step_distance) * self.step_lists,
            cluster_products=self.lanes, cluster_weights=self.step_weights, cluster_adds_pairs=self.variant == "D",
            cluster_shifts=self.shifts_window, cluster_halo=self.has_halo,
        )  # fmt: skip

    def host_numbers(self) -> dict[str, int]:
        return {"cluster_threshold": self.threshold, "cluster_moves": self.moves}


def map_array(array: Array) -> MapArray:
    """An array that reads whole maps; ValueError for another one."""
    if not isinstance(array, MapArray):
        raise ValueError(f"{array.kind} does not read maps")
    return array


def cluster_array(array: Array) -> SparseCluster:
    """A sparse cluster; ValueError for another array."""
    if not isinstance(array, SparseCluster):
        raise ValueError(f"{array.kind} is no sparse cluster")
    return array
