"""The numbers that define a sparse cluster: units, lanes, variant, accumulators, memories, partition (SC 2.2)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings
from bfpga.errors import ConfigurationError
from bfpga.formats.compressed.maps import MapFormat

Variant = Literal["A", "B", "C", "D", "E"]
WeightOrder = Literal["raster", "serpentine", "column"]
DataOrder = Literal["raster", "column"]
MergePolicy = Literal["defer_later", "defer_earlier"]
Conflict = Literal["index", "bank"]
Accumulator = Literal["banked", "window"]
PointwisePath = Literal["reduction", "variant"]

#: Variants that hold several weights in one round.
PACKED = ("C", "D")
#: Rows and columns a piece may store: its local indices are bytes (SC 2.3).
LARGEST_PIECE = 256
#: Settings that name one of a few ways.
CHOICES: dict[str, tuple[str, ...]] = {
    "variant": get_args(Variant),
    "accumulator": get_args(Accumulator),
    "conflict": get_args(Conflict),
    "merge_policy": get_args(MergePolicy),
    "data_order": get_args(DataOrder),
    "pointwise": get_args(PointwisePath),
}
#: Smallest and largest number of a setting.
RANGES = {
    "units": (1, 32),
    "lanes": (1, 32),
    "input_bits": (2, 16),
    "weight_bits": (2, 16),
    "accumulator_bits": (16, 48),
    "kernels_in_flight": (1, 64),
    "accumulator_words": (16, 2048),
    "memory_sets": (1, 4),
    "memory_words": (1, 1 << 20),
    "bus_bytes": (1, 64),
    "window_ports": (1, 1024),
    "start_cycles": (0, 1 << 16),
    "flush_cycles": (0, 1 << 16),
}


@dataclass(frozen=True)
class SparseClusterConfig:
    """m units of p lanes each, all of one variant.

    units, lanes: m and p. weights_per_round: cap on distinct new weights of a round (variants C, D; None: 2). tile:
    rows and columns of a micro-tile (None: the kernel's for A, 4 x 4 for B to D; E works on whole pieces).
    keep_zeros, skip_zero_weights: variant A may keep zero values in its lanes and apply zero weights (R85).
    accumulator: ``banked``, or a ``window`` that is loaded and stored through ``window_ports`` a tile (E13).
    conflict: products of a round clash when they meet one word (``index``) or one of Tr x Tc banks (``bank``, SC 7.3).
    kernels_in_flight: kernels accumulated side by side. memory_sets: 2 or more overlap loading with computing (R49).
    memory_words: words of value-and-index memory of a set; a map whose pieces need more is folded (R55). start_cycles,
    flush_cycles: c_cfg and c_flush of E11; the defaults are eight words of a descriptor on the bus, and a pipeline.
    unit_lanes: lanes of each unit where they differ; work / lanes is balanced then (R65). queue_pieces: the grid may
    make more pieces than there are units; each goes to the unit that is free first (R32, R150).
    """

    units: int = 8
    lanes: int = 9
    variant: Variant = "E"
    weights_per_round: int | None = None
    tile: tuple[int, int] | None = None
    largest_kernel: tuple[int, int] = (3, 3)
    input_bits: int = 8
    weight_bits: int = 8
    accumulator_bits: int = 32
    kernels_in_flight: int = 4
    accumulator_words: int = 128
    accumulator: Accumulator = "banked"
    window_ports: int = 8
    conflict: Conflict = "index"
    merge_policy: MergePolicy = "defer_later"
    weight_order: WeightOrder | tuple[tuple[int, int], ...] | None = None
    data_order: DataOrder = "raster"
    keep_zeros: bool = True
    skip_zero_weights: bool = True
    pointwise: PointwisePath = "reduction"
    payload: MapFormat = field(default_factory=MapFormat)
    memory_sets: int = 2
    memory_words: int = 1024
    bus_bytes: int = 8
    start_cycles: int = 4
    flush_cycles: int = 8
    partition: PartitionSettings = field(default_factory=PartitionSettings)
    unit_lanes: tuple[int, ...] | None = None
    queue_pieces: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be built (R154)."""
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigurationError(
                    f"sparse cluster: {name} is {getattr(self, name)!r}; {', '.join(choices)} are possible"
                )
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigurationError(f"sparse cluster: {name} is {value}; {low} to {high} are possible")
        for name, pair in (("tile", self.tile or (1, 1)), ("largest_kernel", self.largest_kernel)):
            if len(pair) != 2 or (min(pair) < 1 or max(pair) > 16):
                raise ConfigurationError(f"sparse cluster: {name} is {pair}; 1 to 16 rows and columns are possible")
        if self.weights_per_round is not None and not 1 <= self.weights_per_round <= 256:
            raise ConfigurationError(
                f"sparse cluster: weights_per_round is {self.weights_per_round}; 1 to 256 are possible"
            )
        if self.unit_lanes is not None:
            self._check_unit_lanes(self.unit_lanes)
        if self.partition.pieces != self.units and not (self.queue_pieces and self.partition.pieces > self.units):
            rows, columns = self.partition.grid
            raise ConfigurationError(
                f"sparse cluster: the grid {rows} x {columns} makes {rows * columns} pieces for {self.units} units; "
                "the two must be equal"
            )
        self._check_accumulator(self.largest_kernel[0] * self.largest_kernel[1])

    def _check_unit_lanes(self, lanes: tuple[int, ...]) -> None:
        low, high = RANGES["lanes"]
        if len(lanes) != self.units or not all(low <= each <= high for each in lanes):
            raise ConfigurationError(
                f"sparse cluster: unit_lanes is {lanes}; {self.units} numbers from {low} to {high} are needed"
            )

    @property
    def lanes_of_units(self) -> tuple[int, ...]:
        """Lanes of each unit (units,)."""
        return self.unit_lanes or (self.lanes,) * self.units

    def with_lanes(self, lanes: int) -> SparseClusterConfig:
        """The same cluster with so many lanes in every unit."""
        return replace(self, lanes=lanes, unit_lanes=None)

    def _check_accumulator(self, terms: int) -> None:
        needed = self.needed_accumulator_bits(terms)
        if self.accumulator_bits < needed:
            raise ConfigurationError(
                f"sparse cluster: accumulator_bits is {self.accumulator_bits}; {terms} products of {self.input_bits} x "
                f"{self.weight_bits} bits need {needed}"
            )

    def check_layer(self, kernel: tuple[int, int], channels: int) -> None:
        """Refuse a layer whose kernel is too large, or whose sums may leave the accumulators (E10)."""
        if kernel[0] > self.largest_kernel[0] or kernel[1] > self.largest_kernel[1]:
            raise ConfigurationError(
                f"sparse cluster: the kernel is {kernel[0]} x {kernel[1]}; at most {self.largest_kernel[0]} x "
                f"{self.largest_kernel[1]} is built, a larger one has to be split"
            )
        self.check_sums(kernel, channels)

    def check_sums(self, kernel: tuple[int, int], channels: int) -> None:
        """Refuse sums of all products of a kernel that may leave the accumulators (E10)."""
        self._check_accumulator(kernel[0] * kernel[1] * channels)

    def needed_accumulator_bits(self, terms: int) -> int:
        """Width in which ``terms`` products cannot leave the accumulator (E10)."""
        return self.input_bits + self.weight_bits + (terms - 1).bit_length()

    def tile_for(self, kernel: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of a micro-tile for a kernel; variant E has none and gives its largest piece."""
        if self.variant == "E":
            return LARGEST_PIECE, LARGEST_PIECE
        return self.tile or (kernel if self.variant == "A" else (4, 4))

    def accumulator_banks(self, kernel: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of the accumulators' banks: E's as the kernel, the others' as the micro-tile (SC 7.3)."""
        return kernel if self.variant == "E" else self.tile_for(kernel)

    @property
    def accumulator_bytes(self) -> int:
        """Bytes of one raw sum on the bus."""
        return 4 if self.accumulator_bits <= 32 else 8

    @property
    def weight_limit(self) -> int:
        """Distinct new weights of one round; the cap exempts products that were held back (SC 4.3)."""
        if self.variant not in PACKED:
            return 1
        return 2 if self.weights_per_round is None else self.weights_per_round

    @property
    def order_of_weights(self) -> WeightOrder | tuple[tuple[int, int], ...]:
        """Serpentine for variant A, whose window then moves by one cell, raster for the others (R84, R147)."""
        return self.weight_order or ("serpentine" if self.variant == "A" else "raster")
