"""The sparse cluster of `zcu104_cluster` with units of every variant and in both forms: does its hardware hold?

    [BFPGA_MODELS=FOLDER] python -m benchmarks.sparse_cluster.variants [--markdown FILE]

Each is synthesized as `bfpga synthesize FILE --check` does it, the first time half a minute on two cores; ends with
status 1 where a loop is slower than it states, a path misses the clock, or more of a resource is taken than can be
routed. Beside that the estimated clocks of a sample of ResNet-8, whose zeros are counted on its calibration samples; of
LeNet where there is no FOLDER.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.command import EXAMPLES, command, models_folder
from benchmarks.common.networks import CALIBRATION_SAMPLES
from benchmarks.common.report import finish, table
from benchmarks.compiler.cycles import first_samples
from benchmarks.synthesis.counted import counted
from bfpga.accelerator.loader import Accelerator, accelerator_of, accelerator_path
from bfpga.accelerator.yaml_reader import Document, read_document
from bfpga.compiler.compiler import compile_network
from bfpga.contract.arrays.sparse_cluster import map_array
from bfpga.devices.emulator import Emulator
from bfpga.estimate.hardware import findings

ACCELERATOR = "zcu104_cluster"
#: Units -> keys of the engine that differ from the ready file. Of variant B the steps lie in block memory, which leaves
#: less for maps.
CASES: dict[str, dict[str, Any]] = {
    "E": {},
    "E, halo": {"form": "halo"},
    "A": {"variant": "A"},
    "B, 4 lanes": {"variant": "B", "products": 4, "map_blocks": 256},
    "B, 9 lanes": {"variant": "B", "products": 9, "map_blocks": 256},
    "C, 4 lanes": {"variant": "C", "products": 4},
    "C, 8 lanes": {"variant": "C", "products": 8},
    "D, 4 lanes": {"variant": "D", "products": 4},
    "D, 8 lanes": {"variant": "D", "products": 8},
}


def described(changes: Mapping[str, Any]) -> Accelerator:
    """The accelerator of the ready file with other keys of its engine, validated as a file of a user."""
    path, _ = accelerator_path(ACCELERATOR)
    ready = read_document(path, "an accelerator").value
    (engine,) = ready["engines"]
    name = "_".join([ACCELERATOR, *map(str, changes.values())]).lower()
    return accelerator_of(Document(path, {**ready, "name": name, "engines": [{**engine, **changes}]}))


def network() -> Path:
    """ResNet-8 of the folder, or the shipped LeNet."""
    folder = models_folder()
    return EXAMPLES / "lenet_mnist.onnx" if folder is None else folder / "models" / "resnet8_cifar10.onnx"


def row(units: str, accelerator: Accelerator, model: Path) -> tuple[list[str], list[str]]:
    """A line of the table, and what keeps the accelerator from its board."""
    config, resources = accelerator.config, accelerator.board.resources
    figures = counted(accelerator)
    samples = first_samples(model, CALIBRATION_SAMPLES)
    clocks = Emulator(compile_network(model, accelerator, samples)).cycles.schedule
    loops = list(figures.loops)
    interval, slack = max(loop.interval for loop in loops), min(loop.slack for loop in loops)
    used = figures.total.used
    shares = [f"{100 * used[kind] / resources[kind]:.0f} %" for kind in ("lut", "ff", "dsp", "bram36")]
    products = map_array(config.array).units * map_array(config.array).unit_products
    found = [f"{units}: {finding}" for finding in findings(figures, resources)]
    return [units, str(products), str(interval), f"{slack:.2f}", *shares, f"{clocks:,}"], found


def main(given: Sequence[str] | None = None) -> int:
    arguments = command(__doc__, "--markdown").parse_args(given)
    model = network()
    both = [row(units, described(changes), model) for units, changes in CASES.items()]
    head = ["units", "products a clock", "interval", "slack, ns", "LUT", "FF", "DSP", "BRAM", f"clocks, {model.stem}"]
    missed = [finding for _, found in both for finding in found]
    return finish(table(head, [cells for cells, _ in both]) + "\n", arguments.markdown, missed)


if __name__ == "__main__":
    sys.exit(main())
