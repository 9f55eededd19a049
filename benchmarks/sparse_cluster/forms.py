"""The two forms of a kernel's sparse cluster, overlap-add and halo, on real networks: estimated clocks of a sample.

    BFPGA_MODELS=FOLDER python -m benchmarks.sparse_cluster.forms [--network NAME ...] [--variant B|C|D|E]
        [--unit-words BLOCKS] [--apart] [--markdown FILE]

Networks are compiled for both forms of an accelerator, on the same samples that calibrate. Layers whose clocks differ
have a row, then all of a network. Pieces are those that the compiler chooses; with ``--apart`` each unit has one of
its own. ``--unit-words``: blocks of sums that a unit holds for each channel in flight.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from benchmarks.common.command import command, required_models_folder
from benchmarks.common.networks import network_named, network_samples
from benchmarks.common.report import finish, table
from benchmarks.sparse_cluster.shares import NAMES
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.dispatch import input_zeros
from bfpga.contract.arrays.sparse_cluster import ClusterForm, cluster_array
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import ArrayNode, LaunchStep, Program
from bfpga.devices.emulator import Emulator
from bfpga.engines.sparse_cluster.unit_maps import APART, joined_grid

FORMS: tuple[ClusterForm, ...] = ("overlap_add", "halo")
ACCELERATOR = "zcu104_cluster"


def accelerators(variant: str, unit_words: int) -> list[Accelerator]:
    """An accelerator of each form."""
    accelerator = load_accelerator(ACCELERATOR)
    config = accelerator.config
    array = cluster_array(config.array)
    array = replace(array, variant=variant, words=unit_words or array.words)
    return [replace(accelerator, config=replace(config, array=replace(array, form=form))) for form in FORMS]


def pieces_text(program: Program, layer: str) -> str:
    """Pieces of a layer's maps, down and across."""
    node = next(node for node in program.nodes if node.name == layer)
    assert isinstance(node, ArrayNode)
    return " x ".join(map(str, joined_grid(node.joined_pieces, program.config)))


def rows_of(name: str, folder: Path, both: Sequence[Accelerator]) -> list[list[str]]:
    """A row for each layer that takes other clocks, then one for a sample of the network."""
    model = folder / "models" / f"{name}.onnx"
    _, calibration = network_samples(network_named(name), folder, model)
    programs = [compile_network(model, accelerator, calibration) for accelerator in both]
    layers = [layer_clocks(program) for program in programs]
    found = [
        _row(name, layer, [pieces_text(program, layer) for program in programs], [each[layer] for each in layers])
        for layer in layers[0]
        if layers[0][layer] != layers[1][layer]
    ]
    return [*found, _row(name, "a sample", ["", ""], [Emulator(program).cycles.schedule for program in programs])]


def layer_clocks(program: Program) -> Counter[str]:
    """Clocks of the products of each layer: those of its operations by themselves."""
    found: Counter[str] = Counter()
    for step in program.steps:
        for item in step.operations if isinstance(step, LaunchStep) else ():
            if item.descriptor.operation == Operation.GEMM and not item.descriptor.flags & Flag.MEASURE:
                found[item.layer] += item.descriptor.steps
    return found


def _row(name: str, layer: str, pieces: Sequence[str], clocks: Sequence[int]) -> list[str]:
    return [name, layer, *pieces, *(f"{each:,}" for each in clocks), f"{clocks[1] / clocks[0]:.3f}"]


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--network", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--variant", default="E", choices=("B", "C", "D", "E"))
    parser.add_argument("--unit-words", type=int, default=0)
    parser.add_argument("--apart", action="store_true")
    arguments = parser.parse_args(given)
    folder, both = required_models_folder(), accelerators(arguments.variant, arguments.unit_words)
    joins = input_zeros.possible_joins
    with patch.object(input_zeros, "possible_joins", lambda config: [APART] if arguments.apart else joins(config)):
        rows = [row for name in arguments.network for row in rows_of(name, folder, both)]
    head = ["network", "layer", *(f"pieces, {form}" for form in FORMS), *FORMS, "halo / overlap_add"]
    return finish(table(head, rows) + "\n", arguments.markdown)


if __name__ == "__main__":
    sys.exit(main())
