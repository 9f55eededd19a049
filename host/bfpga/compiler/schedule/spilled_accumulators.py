"""Where the accumulators of a measured pass are spilled until the main pass takes them (FP R24, kernel-positions.md).

In the keep buffer, in what the layer's operands leave of the activation memory, or piece by piece in the host's memory:
stored in the start that measures, loaded in the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from bfpga.compiler.schedule.measuring import KEEPING, keeps
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Policy
from bfpga.contract.program import ArrayNode, TensorSpec, Tile
from bfpga.engines.kernel.descriptors import compute_descriptor
from bfpga.engines.kernel.engine import engine_of
from bfpga.engines.kernel.placement import Placement
from bfpga.engines.kernel.regions import ActivationMemory, Region
from bfpga.engines.kernel.streams import block_rows, working_columns
from bfpga.errors import ModelError

_Key = tuple[int, int, int, int, int]


class SpilledAccumulators(Protocol):
    """Places of the accumulators of a layer's parts; the same one each time a part is asked for.

    flag: of the operations that keep and take. stored, loaded: whether a part is moved by operations of its own.
    tensors: those of the host.
    """

    flag: Flag
    stored: bool
    loaded: bool

    @property
    def tensors(self) -> dict[str, TensorSpec]: ...

    def pieces(self, part: Tile) -> list[Tile]:
        """What single operations keep of a part."""
        ...

    def word(self, place: Placement) -> int:
        """Where the keep buffer holds a piece; ModelError if it is too small."""
        ...

    def region(self, part: Tile) -> Region | None:
        """Where the activation memory holds a piece, None in the buffer; ModelError if there is no room."""
        ...


def _key(part: Tile) -> _Key:
    return part.y0, part.y1, part.m0, part.m1, part.step


class KeepBuffer:
    """Places in the keep buffer, in the order in which the parts were measured."""

    flag, stored, loaded = Flag.NONE, False, False

    def __init__(self, config: KernelConfig, node: ArrayNode) -> None:
        self.config, self.node = config, node
        self.used = 0
        self.places: dict[_Key, int] = {}
        self.tensors: dict[str, TensorSpec] = {}

    def pieces(self, part: Tile) -> list[Tile]:
        return [part]

    def word(self, place: Placement) -> int:
        key = _key(place.tile)
        if key not in self.places:
            descriptor = compute_descriptor(self.config, place)
            groups = -(-descriptor.output_pixels // working_columns(self.node, self.config))
            self.places[key], self.used = self.used, self.used + groups * descriptor.output_rows
        if self.used > self.config.wide_words:
            raise ModelError(
                f"layer {self.node.name}: flow {self.node.policy.flow} keeps more than the {self.config.wide_words} "
                "accumulators a column that wide_words holds; take keep_sampled with a longer sample period, "
                "two_pass_sampled, more wide_words, or an accelerator with wide_memory"
            )
        return self.places[key]

    def region(self, part: Tile) -> Region | None:
        return None


class SpilledToMemory:
    """Words of the activation memory that nothing else uses while the layer is computed; all parts at the same time.

    stored: for another kernel.
    """

    flag, loaded = Flag.WIDE, False

    def __init__(self, config: KernelConfig, node: ArrayNode, memory: ActivationMemory, stored: bool = False) -> None:
        self.config, self.node = config, node
        self.memory, self.stored = memory.copy(), stored
        self.places: dict[_Key, Region] = {}

    @property
    def tensors(self) -> dict[str, TensorSpec]:
        """See ``SpilledAccumulators``."""
        return _tensors(self.places.values()) if self.stored else {}

    def pieces(self, part: Tile) -> list[Tile]:
        return [part]

    def word(self, place: Placement) -> int:
        return 0

    def region(self, part: Tile) -> Region | None:
        key = _key(part)
        if key not in self.places:
            base = self.memory.first_word(accumulator_words(self.config, self.node, part))
            if base is None:
                raise ModelError(
                    f"layer {self.node.name}: flow {self.node.policy.flow} keeps more accumulators than the activation "
                    "memory has words left"
                )
            name = f"{self.node.output} kept {len(self.places)}"
            self.places[key] = _region(self.config, self.node, part, name, base, slot=0)
            self.memory.regions.append(self.places[key])
        return self.places[key]


class SpilledToHost:
    """Words of the activation memory for one piece after the other, and a tensor of the host for each of them."""

    flag, stored, loaded = Flag.WIDE, True, True

    def __init__(
        self, config: KernelConfig, node: ArrayNode, memory: ActivationMemory, streamed: bool
    ) -> None:
        """streamed: weights come with every operation, so that none may leave channels out."""
        self.config, self.node = config, node
        gaps = memory.gaps()
        self.gap = max(gaps, key=lambda gap: gap[1] - gap[0]) if gaps else (0, 0)
        self.slot = memory.free_slot()
        self.all_channels = _all_channels(config, node, streamed)
        self.places: dict[_Key, Region] = {}

    @property
    def tensors(self) -> dict[str, TensorSpec]:
        """See ``SpilledAccumulators``."""
        return _tensors(self.places.values())

    def pieces(self, part: Tile) -> list[Tile]:
        channels = [(part.m0, part.m1)]
        if not self._fits(replace(part, y1=part.y0 + 1)) and not self.all_channels:
            channels = list(self._blocks(part))
        return [piece for m0, m1 in channels for piece in self._rows(replace(part, m0=m0, m1=m1))]

    def word(self, place: Placement) -> int:
        return 0

    def region(self, part: Tile) -> Region | None:
        key = _key(part)
        if key not in self.places:
            if not self._fits(part) or self.slot is None:
                raise ModelError(
                    f"layer {self.node.name}: flow {self.node.policy.flow} keeps accumulators, and those of a row "
                    f"take more than the {self.gap[1] - self.gap[0]} words that its operands leave of the activation "
                    "memory; take two_pass_sampled, or more activation_words"
                )
            name = f"{self.node.output} kept {len(self.places)}"
            self.places[key] = _region(self.config, self.node, part, name, self.gap[0], self.slot)
        return self.places[key]

    def _fits(self, part: Tile) -> bool:
        return accumulator_words(self.config, self.node, part) <= self.gap[1] - self.gap[0]

    def _blocks(self, part: Tile) -> Iterator[tuple[int, int]]:
        """Output channels of pieces of one row, as many whole blocks as fit, one at least."""
        size = block_rows(self.node, self.config)
        row = replace(part, y1=part.y0 + 1)
        most = size
        while self._fits(replace(row, m1=min(part.m0 + most + size, part.m1))) and part.m0 + most < part.m1:
            most += size
        for m0 in range(part.m0, part.m1, most):
            yield m0, min(m0 + most, part.m1)

    def _rows(self, part: Tile) -> Iterable[Tile]:
        """The part in as few pieces of whole rows as fit."""
        for count in range(1, part.rows + 1):
            step = -(-part.rows // count) * part.step
            pieces = [replace(part, y0=y, y1=min(y + step, part.y1)) for y in range(part.y0, part.y1, step)]
            if self._fits(pieces[0]):
                return pieces
        return [replace(part, y0=y, y1=y + 1) for y in range(part.y0, part.y1, part.step)]


def accumulator_words(config: KernelConfig, node: ArrayNode, part: Tile) -> int:
    """Words in every bank that hold a word for each output of each pixel; whole row blocks are read of the last one."""
    channels, block = part.m1 - part.m0, engine_of(config).smallest_cut(node, config)
    pixels = part.rows * node.window.output_width
    return -(-pixels // config.banks) * channels + -channels % block


#: The tensor of a region that reserves room for accumulators while a layer's operands are placed.
RESERVED = ""


def reserved_region(config: KernelConfig, words: int) -> Region:
    """The last words of the activation memory, kept free for accumulators."""
    return Region(RESERVED, config.activation_words - words, words, 1, 1, 1, words, config.tensor_slots - 1, 0, 1)


def least_words(config: KernelConfig, node: ArrayNode, streamed: bool) -> int:
    """The fewest words of every bank with which a layer can keep what it measures; 0 for one that keeps nothing there.

    streamed: as for ``SpilledToHost``.
    """
    if not config.wide_memory or node.policy.flow not in KEEPING or not keeps(node):
        return 0
    channels = node.channels if _all_channels(config, node, streamed) else min(node.channels, block_rows(node, config))
    return accumulator_words(config, node, Tile(0, 1, 0, channels))


def given_rows(node: ArrayNode, moved: int) -> int:
    """Of a layer's results the rows, the last ones, whose accumulators come from another kernel: ``moved`` or none."""
    policy = node.policy
    return moved if policy.policy == Policy.STATIC and policy.flow in KEEPING and keeps(node) else 0


def rows_to_load(node: ArrayNode, region: Region, y0: int, moved: int) -> Region:
    """What a layer loads of an operand for its results from row ``y0`` on; moved: as for ``given_rows``.

    Given accumulators need nothing but its exponent, which comes with any row.
    """
    given = given_rows(node, moved)
    if not given or node.adds_second or region.tensor != node.inputs[0]:
        return region
    border = node.window.output_height - given
    last = node.window.input_rows(region.y1, y0, border)[1] if border > y0 else region.y0 + 1
    return replace(region, y1=last)


def _tensors(places: Iterable[Region]) -> dict[str, TensorSpec]:
    return {place.tensor: TensorSpec(place.tensor, place.y1, place.width, place.channels) for place in places}


def _all_channels(config: KernelConfig, node: ArrayNode, streamed: bool) -> bool:
    """Whether a piece of a layer has all its output channels; entries of a skip array leave none out."""
    return streamed or node.groups > 1 or config.array.stores_entries


def _region(config: KernelConfig, node: ArrayNode, part: Tile, name: str, base: int, slot: int) -> Region:
    width, words = node.window.output_width, part.m1 - part.m0
    size = accumulator_words(config, node, part)
    return Region(name, base, size, width, width, words * config.lanes, words, slot, 0, part.rows)
