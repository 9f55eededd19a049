"""How evenly the work of real layers is shared out among the units of a sparse cluster: max / mean of the units.

    BFPGA_MODELS=FOLDER python -m benchmarks.sparse_cluster.shares [--network NAME ...] [--units ROWS COLUMNS]
        [--samples N] [--tau POINTS] [--words BLOCKS] [--markdown FILE]

Inputs of all convolutions with as many lines as the grid has pieces, of real samples on the emulator of an accelerator.
Pieces are of equal size, cut at quantiles, or balanced from either start by the exchange of rows and columns within a
threshold of so many percentage points (``moves`` and ``threshold met`` are of the last). A unit holds ``words`` blocks
of sums for each kernel; a map whose pieces do not fit is folded. Of several layers and samples the slowest units' work
is added up, over the mean units' work: that many times as long as with work shared out exactly.

Last, pieces of the grid are joined, and units of a piece take its cells with values in turn. How many are one is chosen
for each layer on as many samples that come before those that are measured, by the work of the slowest unit. Ends with
status 1 where a layer's slowest units have as much work then as with equal pieces, or those of a network more than 1.10
times that of the mean ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import bfpga
from benchmarks.common.command import command, required_models_folder
from benchmarks.common.networks import network_named, network_samples
from benchmarks.common.report import finish, table
from bfpga.compiler.options import CompileOptions
from bfpga.contract.arrays.sparse_cluster import SparseCluster, cluster_array, map_array
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, BlockTensor, Program
from bfpga.devices.emulator import Emulator
from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings, PieceTooLargeError, balance, work_map
from bfpga.engines.sparse_cluster.partition.geometry import Rectangle, folds, overlap_add_geometry
from bfpga.engines.sparse_cluster.partition.in_kernel import kernel_partition, unit_capacity, unit_values
from bfpga.engines.sparse_cluster.unit_maps import Joined, joined_grid, pieces_fit, possible_joins
from bfpga.formats.arrays import BoolArray, Int64Array

SHARED = "units share pieces"
WAYS = ("equal", "quantiles", "exchange from quantiles", "exchange from equal", SHARED)
BALANCED = WAYS[-2]
NAMES = (
    "lenet_mnist", "lenet_mnist_pruned90", "resnet8_cifar10", "dscnn_kws", "mobilenetv1_025_vww",
    "squeezenet_dc_sparse",
)  # fmt: skip
#: Work of the slowest units over that of the mean ones, at most, of all layers of a network.
MOST_SPREAD = 1.10


@dataclass(frozen=True)
class Share:
    """Work of the slowest unit and of the mean one, all folds together; moves, and folds that met the threshold."""

    slowest: int
    mean: float
    moves: int
    reached: int
    folds: int

    def __add__(self, other: Share) -> Share:
        return Share(
            self.slowest + other.slowest, self.mean + other.mean, self.moves + other.moves,
            self.reached + other.reached, self.folds + other.folds,
        )  # fmt: skip

    @property
    def ratio(self) -> float:
        return self.slowest / self.mean if self.mean else 1.0


NOTHING = Share(0, 0.0, 0, 0, 0)


def share(nonzero: BoolArray, settings: PartitionSettings, config: KernelConfig) -> Share:
    """How a map (channels, rows, columns) is shared out, folded as often as its pieces need."""
    work = work_map(nonzero, settings.metric)
    rows, columns = work.shape
    for parts in range(1, rows + columns):
        limit = -(-rows // parts), -(-columns // parts)
        try:
            parts_of = (_fold(work, fold, settings, config, len(nonzero)) for fold in folds(rows, columns, limit))
            return sum(parts_of, NOTHING)
        except PieceTooLargeError:
            continue
    raise AssertionError("a fold of one cell fits every unit")


def _fold(
    work: Int64Array, fold: Rectangle, settings: PartitionSettings, config: KernelConfig, channels: int
) -> Share:
    part = work[fold.row0 : fold.row1, fold.column0 : fold.column1]
    found = balance(part, overlap_add_geometry(*part.shape), settings, unit_capacity(config), channels)
    return Share(max(found.loads), float(np.mean(found.loads)), found.moves, int(found.reached), 1)


def joined_share(nonzero: BoolArray, joined: Joined, config: KernelConfig) -> Share:
    """How units share a map (rows, columns, channels) with so many pieces as one.

    The map is folded as often as pieces of each unit need. PieceTooLargeError if a unit does not hold joined ones.
    """
    rows, columns, channels = nonzero.shape
    kernel = map_array(config.array).kernel, map_array(config.array).kernel
    words, total = range(-(-channels // config.lanes)), NOTHING
    limit = next(
        (-(-rows // parts), -(-columns // parts))
        for parts in range(1, rows + columns)
        if pieces_fit(-(-rows // parts), -(-columns // parts), kernel, config)
    )
    for fold in folds(rows, columns, limit):
        cells = nonzero[fold.row0 : fold.row1, fold.column0 : fold.column1]
        bands, across = joined_grid(joined, config)
        if not pieces_fit(fold.rows, fold.columns, kernel, config, joined):
            raise PieceTooLargeError(f"units do not hold joined pieces of {fold.rows} x {fold.columns} cells")
        moves = cluster_array(config.array).moves if fold.rows >= bands and fold.columns >= across else 0
        found = kernel_partition(cells, kernel, config, moves, joined)
        loads = unit_values(found.partition, cells, [words], kernel, config)
        total += Share(int(loads.max()), float(loads.mean()), found.moves, int(found.reached), 1)
    return total


def chosen_join(samples: BoolArray, config: KernelConfig) -> Joined:
    """The pieces that are one, whose slowest units have the least work on (samples, rows, columns, channels)."""
    slowest: dict[Joined, int] = {}
    for joined in possible_joins(config):
        try:
            slowest[joined] = sum(joined_share(sample, joined, config).slowest for sample in samples)
        except PieceTooLargeError:
            continue
    return min(slowest, key=lambda joined: slowest[joined])


@dataclass(frozen=True)
class NetworkRun:
    """Convolutions of a network and what is not zero of their inputs (samples, rows, columns, channels).

    array_clocks: of each layer on the array, by its name, without loads of weights.
    """

    layers: tuple[tuple[ArrayNode, BoolArray], ...]
    array_clocks: dict[str, int]


def network_run(name: str, folder: Path, samples: int) -> NetworkRun:
    """A network of the folder on so many of its samples."""
    model = folder / "models" / f"{name}.onnx"
    x, calibration = network_samples(network_named(name), folder, model)
    program = bfpga.compile(model, "zcu104_dense", calibration, CompileOptions())
    emulator = Emulator(program)
    tensors = emulator.run({next(iter(program.inputs)): x[:samples]}, trace=True).tensors
    return NetworkRun(
        tuple(_convolutions(program, tensors)),
        {layer: clocks.compute for layer, clocks in emulator.cycles.layers.items()},
    )


def _convolutions(program: Program, tensors: Mapping[str, BlockTensor]) -> Iterator[tuple[ArrayNode, BoolArray]]:
    for node in program.nodes:
        if isinstance(node, ArrayNode) and len(node.inputs) == 1 and node.inputs[0] in tensors:
            mantissa = np.asarray(tensors[node.inputs[0]].mantissa)
            if mantissa.ndim == 4:
                yield node, mantissa != 0


def rows_of(
    name: str, folder: Path, samples: int, settings: PartitionSettings, config: KernelConfig
) -> tuple[list[list[str]], list[str]]:
    """A row for all layers of a network together, before it one for each; and what is not even enough."""
    ways = {
        "equal": settings.without_moves(),
        "quantiles": replace(settings, start="quantile", max_moves=0),
        "exchange from quantiles": replace(settings, start="quantile"),
        "exchange from equal": replace(settings, start="equal"),
    }
    total, shown = dict.fromkeys(WAYS, NOTHING), []
    missed = []
    for node, both in network_run(name, folder, 2 * samples).layers:
        _, rows, columns, channels = both.shape
        if rows < settings.grid[0] or columns < settings.grid[1]:
            continue
        before, nonzero = both[:samples], both[samples:]
        found = {
            way: sum((share(sample.transpose(2, 0, 1), chosen, config) for sample in nonzero), NOTHING)
            for way, chosen in ways.items()
        }
        joined = chosen_join(before, config)
        found[SHARED] = sum((joined_share(sample, joined, config) for sample in nonzero), NOTHING)
        total = {way: total[way] + found[way] for way in WAYS}
        bands, across = joined_grid(joined, config)
        shape = f"{rows}x{columns}x{channels} to {node.channels}"
        shown.append(_row(name, shape, f"{nonzero.mean():.2f}", found, f"{bands} x {across}"))
        if found[SHARED].slowest >= found["equal"].slowest:
            missed.append(f"{name}, {shape}: the slowest units have no less work than with equal pieces")
    if total[SHARED].ratio > MOST_SPREAD:
        missed.append(f"{name}: spread {total[SHARED].ratio:.3f}, above {MOST_SPREAD:.2f}")
    return [*shown, _row(name, "all of these", "", total, "")], missed


def _row(name: str, shape: str, density: str, found: dict[str, Share], pieces: str) -> list[str]:
    balanced = found[BALANCED]
    return [
        name, shape, density, *(f"{found[way].ratio:.2f}" for way in WAYS), pieces,
        f"{balanced.moves / max(1, balanced.folds):.1f}", f"{balanced.reached} of {balanced.folds}",
    ]  # fmt: skip


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--network", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--units", nargs=2, type=int, default=(4, 4), metavar=("ROWS", "COLUMNS"))
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--tau", type=float, default=3.0)
    parser.add_argument("--words", type=int, default=64)
    arguments = parser.parse_args(given)
    folder = required_models_folder()
    settings = PartitionSettings(grid=tuple(arguments.units), mode="overlap_add", tau=arguments.tau)
    rows, columns = settings.grid
    array = SparseCluster(rows=rows, columns=columns, words=arguments.words, threshold=round(settings.tau))
    config = KernelConfig(lanes=4, array=array)
    head = ["network", "input to channels", "density", *WAYS, "pieces", "moves", "threshold met"]
    found = [rows_of(name, folder, arguments.samples, settings, config) for name in arguments.network]
    missed = [line for _, lines in found for line in lines]
    return finish(table(head, [row for rows, _ in found for row in rows]) + "\n", arguments.markdown, missed)


if __name__ == "__main__":
    sys.exit(main())
