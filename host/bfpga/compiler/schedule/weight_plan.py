"""Where weights live: resident from the start, loaded before use, or streamed during use.

Factors that are computed become weights at run time: their layers load them always.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import lcm
from typing import Literal

import numpy as np

from bfpga.compiler.schedule.held_weights import SharedMemory
from bfpga.compiler.schedule.unfit_parts import UnfitPartError
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Policy
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep
from bfpga.engines.kernel.descriptors import channel_runs, weight_words, weights_descriptor
from bfpga.engines.kernel.engine import engine_of
from bfpga.engines.kernel.regions import region_words
from bfpga.engines.kernel.streams import (
    pack_parameters,
    pack_weights,
    parameter_rows,
    working_columns,
)
from bfpga.errors import ModelError

Mode = Literal["resident", "load", "stream"]

#: Pieces of weights buffered together: one that is read, and what is loaded meanwhile.
BUFFERED_TILES = 4


@dataclass
class WeightTile:
    """Output channels [m0, m1) whose weights are contiguous: one descriptor computes them."""

    m0: int
    m1: int
    words: int
    rows: int
    weight_base: int = 0
    parameter_base: int = 0


@dataclass
class NodeWeights:
    """The plan of one node; nodes without weights have one tile of no words."""

    mode: Mode
    tiles: list[WeightTile]
    #: Bytes of tiles already packed.
    packed: dict[tuple[int, int], bytes] = field(default_factory=dict)

    @property
    def words(self) -> int:
        return sum(tile.words for tile in self.tiles)

    @property
    def rows(self) -> int:
        return sum(tile.rows for tile in self.tiles)


@dataclass(frozen=True)
class PlanKind:
    """How weights share a memory that does not hold all of them.

    residents: layers stay as far as there is room. small: layers that use their weights once are cut into small pieces,
    of which one is loaded while another one is read.
    """

    residents: bool = True
    small: bool = True


_USUAL = PlanKind()


def plan_weights(
    nodes: list[ArrayNode], config: KernelConfig, reserved: tuple[int, int] = (0, 0), kind: PlanKind = _USUAL
) -> dict[str, NodeWeights]:
    """A plan for every node by name; resident nodes first in memory, the rest of it is shared by the others.

    reserved: (weight words, parameter rows) that products of two activations need. kind: where not all nodes fit.
    """
    plans = {node.name: NodeWeights("resident", _tiles(node, config)) for node in nodes}
    gemms = [node for node in nodes if node.kind == "gemm" and not _brought(node)]
    row = _place_rows(nodes, plans, config)
    words, rows = config.weight_words - reserved[0], config.parameter_rows - reserved[1] - row
    total = (sum(plans[n.name].words for n in gemms), sum(plans[n.name].rows for n in gemms))
    if gemms and (total[0] > words or total[1] > rows):
        if kind.residents:
            _choose_residents(gemms, plans, config, reserved, row)
        else:
            for node in gemms:
                plans[node.name].mode = "load"
    word = 0
    for node in gemms:
        plan = plans[node.name]
        if plan.mode == "resident":
            for tile in plan.tiles:
                tile.weight_base, tile.parameter_base = word, row
                word, row = word + tile.words, row + tile.rows
    shared = _Shared(config, word, row, kind)
    for node in nodes:
        if _brought(node):
            plans[node.name].mode = "load"
        if plans[node.name].mode != "resident":
            _cut(node, plans[node.name], config, shared)
        if _brought(node) and plans[node.name].mode != "load":
            if node.operand is not None:
                text = f"{node.name}: no weight memory is left for its second tensor"
                raise UnfitPartError("operand_weights", text)
            raise ModelError(f"{node.name}: no weight memory is left for its factors")
    return plans


def _brought(node: ArrayNode) -> bool:
    """Whether each sample brings its own weights."""
    return node.factors != "" or node.operand is not None


def _place_rows(nodes: list[ArrayNode], plans: dict[str, NodeWeights], config: KernelConfig) -> int:
    """Parameters of rows stay from the start, first in their memory; how many rows of it they take.

    Behind them a block of each layer of products finds room.
    """
    blocks = [engine_of(config).smallest_cut(node, config) for node in nodes if node.kind == "gemm"]
    row, least = 0, max(blocks, default=0)
    for node in nodes:
        if node.kind == "rows":
            tile = plans[node.name].tiles[0]
            tile.parameter_base, row = (row, row + tile.rows) if tile.rows else (0, row)
            if max(row + least, node.channels) > config.parameter_rows:
                text = f"{node.name}: {config.parameter_rows} rows of parameters do not hold those of rows"
                raise UnfitPartError("row_columns", text)
    return row


def factor_reserve(nodes: list[ArrayNode], config: KernelConfig) -> tuple[int, int]:
    """Weight words and parameter rows to keep free for factors and second tensors: those of the largest layer, at most
    half of each."""
    words = rows = 0
    for node in nodes:
        if _brought(node):
            tiles, size = _tiles(node, config), engine_of(config).smallest_cut(node, config)
            block = weight_words(node, config, 0, min(size, node.channels))
            words = max(words, block, min(sum(tile.words for tile in tiles), config.weight_words // 2))
            rows = max(rows, size, min(sum(tile.rows for tile in tiles), config.parameter_rows // 2))
    return words, rows


@dataclass
class _Shared:
    """What residents leave of the memories, from ``word`` and ``row`` on: layers use it in turn.

    A kernel fills one part of it while the array reads another: tiles follow each other, and begin anew at the
    end of the memory.
    """

    config: KernelConfig
    word: int
    row: int
    kind: PlanKind
    used_words: int = 0
    used_rows: int = 0

    @property
    def words(self) -> int:
        return self.config.weight_words - self.word

    @property
    def rows(self) -> int:
        return self.config.parameter_rows - self.row

    def place(self, tile: WeightTile) -> None:
        """Give a tile its place."""
        if self.used_words + tile.words > self.words:
            self.used_words = 0
        if self.used_rows + tile.rows > self.rows:
            self.used_rows = 0
        tile.weight_base, tile.parameter_base = self.word + self.used_words, self.row + self.used_rows
        self.used_words += tile.words
        self.used_rows += tile.rows


def _has_parameters(node: ArrayNode) -> bool:
    """Whether a layer of rows has scales or biases of channels; without them it reads what rows there are."""
    return node.rows is not None and (node.rows.gains is not None or node.bias is not None)


def _tiles(node: ArrayNode, config: KernelConfig) -> list[WeightTile]:
    if node.kind != "gemm":
        return [WeightTile(0, node.channels, 0, node.channels if _has_parameters(node) else 0)]
    return [
        WeightTile(m0, m1, weight_words(node, config, m0, m1), parameter_rows(node, config, m1 - m0))
        for m0, m1 in channel_runs(node, config)
    ]


def groups_of(node: ArrayNode, config: KernelConfig) -> int:
    """Groups of columns that the output pixels make: how often every weight is used."""
    return -(-node.window.output_height * node.window.output_width // working_columns(node, config))


def _choose_residents(
    gemms: list[ArrayNode], plans: dict[str, NodeWeights], config: KernelConfig, reserved: tuple[int, int], taken: int
) -> None:
    """Keep the layers that use their weights often, small ones first; the others share what is left.

    taken: rows of parameters that others have.
    """
    of_rows = config.parameter_rows - taken
    order = sorted(gemms, key=lambda node: (groups_of(node, config) == 1, plans[node.name].words))
    shared_words = min(max(plans[node.name].words for node in gemms), config.weight_words // 2)
    shared_rows = min(max(plans[node.name].rows for node in gemms), of_rows // 2)
    blocks = [engine_of(config).smallest_cut(node, config) for node in gemms]
    shared_words, shared_rows = max(shared_words, reserved[0]), max(shared_rows, reserved[1], *blocks)
    words, rows = config.weight_words - shared_words, of_rows - shared_rows
    for node in order:
        plan = plans[node.name]
        if plan.words <= words and plan.rows <= rows:
            words, rows = words - plan.words, rows - plan.rows
            continue
        # One piece is loaded while another one is read; only words as wide as the stream need no memory.
        streams = config.beats_per_weight_word == 1 and not node.uniform_weights
        plan.mode = "stream" if streams else "load"


def _cut(node: ArrayNode, plan: NodeWeights, config: KernelConfig, shared: _Shared) -> None:
    """Cut a node's tiles to whole row blocks that fit the shared part of the memories."""
    size = engine_of(config).smallest_cut(node, config)
    loaded = _loaded_pieces(node, plan, config, shared) if plan.mode == "load" else None
    plan.mode = "stream" if loaded is None else "load"
    pieces = _pieces(plan.tiles, shared.rows // size * size) if loaded is None else loaded
    words = [weight_words(node, config, m0, m1) if loaded is not None else 0 for m0, m1 in pieces]
    plan.tiles = [
        WeightTile(m0, m1, count, parameter_rows(node, config, m1 - m0))
        for (m0, m1), count in zip(pieces, words, strict=True)
    ]
    for tile in plan.tiles:
        shared.place(tile)


def _loaded_pieces(
    node: ArrayNode, plan: NodeWeights, config: KernelConfig, shared: _Shared
) -> list[tuple[int, int]] | None:
    """Channels of the pieces that are loaded, as few as possible; None if not even one row block fits.

    A piece is loaded in parallel with the one that is read: pieces are small enough for that, unless they would bring
    the same bytes several times.
    """
    pieces = _fitting(node, plan, config, shared.words, shared.rows)
    if pieces is None or _brought(node):
        return pieces
    if len(pieces) == len(plan.tiles) and not _used_once(node, config):
        return pieces
    for share in (BUFFERED_TILES, 2) if shared.kind.small else ():
        small = _fitting(node, plan, config, shared.words // share, shared.rows // share)
        if small is not None:
            even = _even(node, plan, config, small)
            return even if not config.array.stores_entries or _largest(node, config, even) <= shared.words else small
    return pieces


def _even(
    node: ArrayNode, plan: NodeWeights, config: KernelConfig, pieces: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """As many pieces, of as equal size as row blocks allow: the array waits for the first of them."""
    size = engine_of(config).smallest_cut(node, config)
    if config.array.stores_entries:
        size = _rounds(config)
    largest = max(-(-(tile.m1 - tile.m0) // size) for tile in plan.tiles)
    return _pieces(plan.tiles, -(-largest // -(-len(pieces) // len(plan.tiles))) * size)


def _used_once(node: ArrayNode, config: KernelConfig) -> bool:
    """Whether a layer's weights are used by one operation after the other: its exponent is known and it fits at once.

    Otherwise pieces are loaded again for the results that are measured first, and for every strip of rows.
    """
    window = node.window
    width, height = window.output_width * window.stride_x, window.output_height * window.stride_y
    inputs = node.weights.shape[3] * node.groups if node.weights is not None else 0
    words = region_words(config, height, width, width, inputs)
    words += region_words(config, window.output_height, window.output_width, window.output_width, node.channels)
    return node.policy.policy == Policy.STATIC and words <= config.activation_words


def _fitting(
    node: ArrayNode, plan: NodeWeights, config: KernelConfig, words: int, rows: int
) -> list[tuple[int, int]] | None:
    """Channels of the largest pieces of whole row blocks that fit ``words`` and ``rows``; None if no block does."""
    if config.array.stores_entries:
        return _fitting_entries(node, plan, config, words, rows)
    size = engine_of(config).smallest_cut(node, config)
    most = rows // size
    # A run of blocks may read more words a block than one block alone, so the cut itself is measured.
    while most > 1 and _largest(node, config, _pieces(plan.tiles, most * size)) > words:
        most -= 1
    if most == 0 or _largest(node, config, _pieces(plan.tiles, most * size)) > words:
        return None
    return _pieces(plan.tiles, most * size)


def _rounds(config: KernelConfig) -> int:
    """Output channels of which every group of a skip array has as many, in whole words; fewer if a pass has fewer."""
    unit = lcm(config.array.skip_groups(config), config.lanes)
    return unit if unit <= config.rows else config.lanes


def _fitting_entries(
    node: ArrayNode, plan: NodeWeights, config: KernelConfig, words: int, rows: int
) -> list[tuple[int, int]] | None:
    """The same for a skip array, whose pieces take as many words as they have entries."""
    unit, most = _rounds(config), min(rows, max(tile.m1 - tile.m0 for tile in plan.tiles))
    sizes = [*range(-(-most // unit) * unit, 0, -unit), *range(unit - config.lanes, 0, -config.lanes)]
    sizes = [size for size in sizes if parameter_rows(node, config, min(size, most)) <= rows]
    assert node.weights is not None
    # Entries of the kernels in front of each; a kernel has two at least, or its weights and one.
    entries = np.count_nonzero(node.weights.reshape(len(node.weights), -1), axis=1) + 1
    before = np.concatenate([[0], np.cumsum(np.maximum(entries, 2))])
    for size in sizes:
        pieces = _pieces(plan.tiles, size)
        least = max(-(-int(before[m1] - before[m0]) // config.array.skip_groups(config)) for m0, m1 in pieces)
        if least <= words and _largest(node, config, pieces) <= words:
            return pieces
    return None


def _pieces(tiles: list[WeightTile], size: int) -> list[tuple[int, int]]:
    """The tiles' output channels in runs of at most ``size``."""
    return [(m0, min(m0 + size, tile.m1)) for tile in tiles for m0 in range(tile.m0, tile.m1, size)]


def _largest(node: ArrayNode, config: KernelConfig, pieces: list[tuple[int, int]]) -> int:
    return max(weight_words(node, config, m0, m1) for m0, m1 in pieces)


def weights_operation(node: ArrayNode, plan: NodeWeights, tile: WeightTile, config: KernelConfig) -> KernelOperation:
    """WEIGHTS for one tile: its parameter rows and, unless they are streamed, its weight words."""
    data = pack_parameters(node, config, tile.m0, tile.m1)
    if plan.mode != "stream" and tile.words:
        data += packed_weights(node, plan, tile, config)
    return KernelOperation(
        node.name, weights_descriptor(tile.weight_base, tile.words, tile.parameter_base, tile.rows), weights=data,
        channels=(tile.m0, tile.m1) if node.factors else None,
    )  # fmt: skip


def packed_weights(node: ArrayNode, plan: NodeWeights, tile: WeightTile, config: KernelConfig) -> bytes:
    """Weight words of a tile, packed once."""
    key = (tile.m0, tile.m1)
    if key not in plan.packed:
        plan.packed[key] = pack_weights(node, config, tile.m0, tile.m1)
    return plan.packed[key]


def shared_memory(plans: Mapping[str, NodeWeights], config: KernelConfig) -> SharedMemory | None:
    """What the residents leave of a skip array's memories, where every start gives pieces places of its own.

    None for other arrays, whose pieces stay where the plan has them: several starts may read them there.
    """
    if not config.array.stores_entries:
        return None
    tiles = [tile for plan in plans.values() if plan.mode == "resident" for tile in plan.tiles]
    word = max((tile.weight_base + tile.words for tile in tiles), default=0)
    row = max((tile.parameter_base + tile.rows for tile in tiles), default=0)
    return SharedMemory.after(config, word, row)


def setup_launch(nodes: list[ArrayNode], plans: dict[str, NodeWeights], config: KernelConfig) -> LaunchStep:
    """The start that fills the memories with all resident weights."""
    operations = []
    for node in nodes:
        plan = plans[node.name]
        if (node.kind == "gemm" or _has_parameters(node)) and plan.mode == "resident":
            operations += [weights_operation(node, plan, tile, config) for tile in plan.tiles]
    return LaunchStep(operations)
