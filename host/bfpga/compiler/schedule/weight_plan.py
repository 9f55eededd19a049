"""Where weights live: resident from the start, loaded before use, or streamed during use.

Another engine than the array reads its kernels with every operation: its layers have rows of bias and exponent only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep
from bfpga.engines.array.descriptors import blocks_of, channel_runs, weight_words, weights_descriptor
from bfpga.engines.array.streams import block_rows, pack_parameters, pack_weights, parameter_block, working_columns

Mode = Literal["resident", "load", "stream"]


@dataclass
class WeightTile:
    """Output channels [m0, m1) whose weights lie together: one descriptor computes them."""

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


def plan_weights(
    nodes: list[ArrayNode], config: SystolicConfig, reserved: tuple[int, int] = (0, 0)
) -> dict[str, NodeWeights]:
    """A plan for every node by name; resident nodes first in memory, the rest of it is shared by the others.

    reserved: (weight words, parameter rows) that products of two activations need.
    """
    plans = {node.name: NodeWeights("resident", _tiles(node, config)) for node in nodes}
    gemms = [node for node in nodes if node.kind == "gemm"]
    words, rows = config.weight_words - reserved[0], config.parameter_rows - reserved[1]
    total = (sum(plans[n.name].words for n in gemms), sum(plans[n.name].rows for n in gemms))
    if total[0] > words or total[1] > rows:
        _choose_residents(gemms, plans, config, reserved)
    word = row = 0
    for node in gemms:
        plan = plans[node.name]
        if plan.mode == "resident":
            for tile in plan.tiles:
                tile.weight_base, tile.parameter_base = word, row
                word, row = word + tile.words, row + tile.rows
    for node in gemms:
        if plans[node.name].mode != "resident":
            _cut(node, plans[node.name], config, word, row)
    return plans


def _tiles(node: ArrayNode, config: SystolicConfig) -> list[WeightTile]:
    if node.kind != "gemm":
        return [WeightTile(0, node.channels, 0, 0)]
    if not node.on_array:
        return [WeightTile(0, node.channels, 0, _whole_blocks(node.channels, config.lanes))]
    size = block_rows(node, config)
    return [
        WeightTile(m0, m1, weight_words(node, config, m0, m1), blocks_of(node, config, m1 - m0) * size)
        for m0, m1 in channel_runs(node, config)
    ]


def _whole_blocks(channels: int, block: int) -> int:
    return -(-channels // block) * block


def groups_of(node: ArrayNode, config: SystolicConfig) -> int:
    """Groups of columns that the output pixels make: how often every weight is used."""
    return -(-node.window.output_height * node.window.output_width // working_columns(node, config))


def _choose_residents(
    gemms: list[ArrayNode], plans: dict[str, NodeWeights], config: SystolicConfig, reserved: tuple[int, int]
) -> None:
    """Keep the layers that use their weights often, small ones first; the others share what is left."""
    order = sorted(gemms, key=lambda node: (groups_of(node, config) == 1, plans[node.name].words))
    shared_words = min(max(plans[node.name].words for node in gemms), config.weight_words // 2)
    shared_rows = min(max(plans[node.name].rows for node in gemms), config.parameter_rows // 2)
    blocks = [parameter_block(node, config) for node in gemms]
    shared_words, shared_rows = max(shared_words, reserved[0]), max(shared_rows, reserved[1], *blocks)
    words, rows = config.weight_words - shared_words, config.parameter_rows - shared_rows
    for node in order:
        plan = plans[node.name]
        if plan.words <= words and plan.rows <= rows:
            words, rows = words - plan.words, rows - plan.rows
            continue
        once = groups_of(node, config) == 1 or config.beats_per_weight_word == 1
        array = node.on_array
        plan.mode = "stream" if array and once and not node.uniform_weights else "load"


def _cut(node: ArrayNode, plan: NodeWeights, config: SystolicConfig, word: int, row: int) -> None:
    """Cut a node's tiles to whole row blocks that fit the shared part of the memories."""
    words, rows = config.weight_words - word, config.parameter_rows - row
    if not node.on_array:
        most = _engine_channels(node, config, rows)
        plan.tiles = [
            WeightTile(m0, m1, 0, _whole_blocks(m1 - m0, config.lanes), word, row)
            for m0, m1 in _pieces(plan.tiles, most)
        ]
        return
    size = block_rows(node, config)
    most = rows // size
    if plan.mode == "load":
        # A run of blocks may read more words a block than one block alone, so the cut itself is measured.
        while most > 1 and _largest(node, config, _pieces(plan.tiles, most * size)) > words:
            most -= 1
        if _largest(node, config, _pieces(plan.tiles, most * size)) > words:
            plan.mode, most = "stream", rows // size
    plan.tiles = [
        WeightTile(
            m0,
            m1,
            0 if plan.mode == "stream" else weight_words(node, config, m0, m1),
            blocks_of(node, config, m1 - m0) * size,
            word,
            row,
        )
        for m0, m1 in _pieces(plan.tiles, most * size)
    ]


def _engine_channels(node: ArrayNode, config: SystolicConfig, rows: int) -> int:
    """Output channels of one operation of another engine than the array: whole passes over the input if ``rows`` do."""
    in_flight = config.numbers_beside(node.engine).kernels_in_flight
    step = in_flight if in_flight <= rows else config.lanes
    return rows // step * step


def _pieces(tiles: list[WeightTile], size: int) -> list[tuple[int, int]]:
    """The tiles' output channels in runs of at most ``size``."""
    return [(m0, min(m0 + size, tile.m1)) for tile in tiles for m0 in range(tile.m0, tile.m1, size)]


def _largest(node: ArrayNode, config: SystolicConfig, pieces: list[tuple[int, int]]) -> int:
    return max(weight_words(node, config, m0, m1) for m0, m1 in pieces)


def weights_operation(node: ArrayNode, plan: NodeWeights, tile: WeightTile, config: SystolicConfig) -> KernelOperation:
    """WEIGHTS for one tile: its parameter rows and, unless they are streamed, its weight words."""
    data = pack_parameters(node, config, tile.m0, tile.m1)
    if plan.mode != "stream" and node.on_array:
        data += packed_weights(node, plan, tile, config)
    return KernelOperation(
        node.name, weights_descriptor(tile.weight_base, tile.words, tile.parameter_base, tile.rows), weights=data
    )


def packed_weights(node: ArrayNode, plan: NodeWeights, tile: WeightTile, config: SystolicConfig) -> bytes:
    """Weight words of a tile, packed once."""
    key = (tile.m0, tile.m1)
    if key not in plan.packed:
        plan.packed[key] = pack_weights(node, config, tile.m0, tile.m1)
    return plan.packed[key]


def setup_launch(nodes: list[ArrayNode], plans: dict[str, NodeWeights], config: SystolicConfig) -> LaunchStep:
    """The start that fills the memories with all resident weights."""
    operations = []
    for node in nodes:
        plan = plans[node.name]
        if node.kind == "gemm" and plan.mode == "resident":
            operations += [weights_operation(node, plan, tile, config) for tile in plan.tiles]
    return LaunchStep(operations)
