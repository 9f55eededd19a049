"""What exponents for blocks of channels would give real networks: one table, one command.

    BFPGA_MODELS=FOLDER python -m benchmarks.formats.blocks [--network NAME ...] [--block 32] [--markdown FILE]

FOLDER has models/ and data/; networks it does not have are left out, and those of tests/data/trained are added. Samples
and calibration are those of benchmarks/compiler/accuracy.py, the study that of `bfpga research blocks`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.command import ROOT, command, required_models_folder
from benchmarks.common.networks import NETWORKS, Network, network_samples, top1
from benchmarks.common.report import finish, table
from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.read.network import read_network
from bfpga.data import InputSamples
from bfpga.precision.blocks import Row, study

#: What a network reaches, by metric.
REACHED = {"accuracy": "top-1 %", "agreement": "agreement %", "noise": "energy without errors %"}
#: ``ad01_autoencoder`` is judged file by file, which this study does not do.
CHOSEN = (
    *(network for network in NETWORKS if network.name != "ad01_autoencoder"),
    *(Network(f"mnist_{name}", "mnist_test_even", top1, "mnist_train_calib") for name in ("vit", "silu_se")),
)
TRAINED = ROOT / "tests" / "data" / "trained"
ACCELERATOR = "pynq_z2_dense"


def model_of(network: Network, folder: Path) -> Path:
    trained = TRAINED / f"{network.name}.onnx"
    return trained if trained.exists() else folder / "models" / trained.name


def row_of(network: Network, folder: Path, block: int) -> list[str]:
    """Cells of a network: metric, samples, float, and percent and decibels with each of the numbers."""
    model = model_of(network, folder)
    x, calibration = network_samples(network, folder, model)
    with np.load(folder / "data" / f"{network.data}.npz", allow_pickle=False) as file:
        labels = np.asarray(file["y"]) if network.judge is top1 else None
    read = read_network(model)
    (name,) = read.inputs
    found = study(read, load_accelerator(ACCELERATOR), InputSamples({name: x}, labels), {name: calibration}, block)

    def cell(row: Row) -> str:
        print(f"{network.name}: {row.bits} bits, {row.exponents}: {row.sqnr_db:.1f} dB", file=sys.stderr)
        return f"{found.judge.reached - row.score.lost:.2f}, {row.sqnr_db:.1f} dB"

    metric = REACHED[found.judge.metric]
    return [network.name, metric, str(found.judge.samples), f"{found.judge.reached:.2f}", *map(cell, found.rows)]


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--network", nargs="+", default=[network.name for network in CHOSEN], metavar="NAME")
    parser.add_argument("--block", type=int, default=32, metavar="N")
    arguments = parser.parse_args(given)
    folder = required_models_folder()
    chosen = [network for network in CHOSEN if network.name in arguments.network]
    rows = [row_of(network, folder, arguments.block) for network in chosen if model_of(network, folder).exists()]
    columns = ["a tensor", f"{arguments.block} of values", f"{arguments.block} of values and weights"]
    head = ["network", "metric", "samples", "float", ACCELERATOR]
    head += [f"{bits} bits, {column}" for bits in (8, 4) for column in columns]
    return finish(f"{table(head, rows)}\n", arguments.markdown)


if __name__ == "__main__":
    sys.exit(main())
