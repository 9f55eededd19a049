"""The compiled layers of the emulator against its engines in numpy: bits, counters, status and cycles of real networks.

    BFPGA_MODELS=FOLDER python -m benchmarks.devices.emulator_check [--sets NAME ...] [--networks NAME ...]
        [--samples N] [--json FILE]

Every network of the folder runs all samples of its file, then as many with noise of a hundred times their size added,
and as many whose values are all +-2^20 (the seed is fixed). Outputs, and what every layer counts, have to be the same
for each instruction set; the first 16 samples are compared tensor by tensor. Ends with 1 at any difference.
Random networks are compared by `bfpga verify random --against native`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import bfpga
from benchmarks.common.command import command, required_models_folder
from benchmarks.common.networks import NETWORKS, Float32Array, Network, network_samples
from benchmarks.common.report import finish, table, write_json
from bfpga.contract.program import Program
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.emulator import Emulator
from bfpga.devices.native.library import NUMPY, available_sets

SEED = 15
#: Samples whose tensors are compared one by one, and samples of a batch of the others.
TRACED, BATCH = 16, 256
NOISE, EXTREME = 100.0, np.float32(1 << 20)
COLUMNS = ("network", "input", "samples", "sets", "compiled layers", "overflows", "underflows", "differences", "s")


def inputs_of(x: Float32Array) -> Iterator[tuple[str, Float32Array]]:
    """The samples, the samples in noise, extremes in their shape."""
    generator = np.random.default_rng(SEED)
    yield "samples", x
    size = NOISE * float(np.abs(x).mean())
    yield "noise x100", x + generator.normal(0, size, x.shape).astype(np.float32)
    yield "+-2^20", np.where(generator.random(x.shape) < 0.5, -EXTREME, EXTREME)


def differences(program: Program, x: Float32Array, emulators: dict[str, Emulator], counts: dict[str, int]) -> list[str]:
    """What differs between the engines in numpy and each set; ``counts`` grows by what numpy counted."""
    (name,) = program.inputs
    reference = Emulator(program, NUMPY)
    found: list[str] = []
    parts = [(slice(0, TRACED), True), *((slice(i, i + BATCH), False) for i in range(TRACED, len(x), BATCH))]
    for part, trace in parts:
        data = {name: np.ascontiguousarray(x[part])}
        expected = reference.run(data, trace=trace)
        for layer in expected.layers:
            if layer.counters is not None:
                counts["overflows"] += layer.counters.overflows
                counts["underflows"] += layer.counters.underflows
        for key, emulator in emulators.items():
            mismatch = first_mismatch(program, expected, emulator.run(data, trace=trace))
            if mismatch is not None:
                found.append(f"{key}: {mismatch}")
    return found


def check(network: Network, folder: Path, sets: Sequence[str], samples: int | None) -> Iterator[dict[str, Any]]:
    """Rows of one network."""
    model = folder / "models" / f"{network.name}.onnx"
    x, calibration = network_samples(network, folder, model)
    program = bfpga.compile(model, "pynq_z2_dense", calibration)
    for title, data in inputs_of(x[:samples]):
        # Policies learn: each kind of input begins with emulators of its own. A probe would hide what differs.
        emulators = {key: Emulator(program, key, probe=False) for key in sets}
        native = next(iter(emulators.values())).native
        start, counts = time.perf_counter(), {"overflows": 0, "underflows": 0}
        found = differences(program, data, emulators, counts)
        layers = 0 if native is None else len(native.covered)
        yield {"network": network.name, "input": title, "samples": len(data), "sets": len(sets),
               "compiled layers": layers, **counts, "differences": found,
               "s": round(time.perf_counter() - start, 1)}  # fmt: skip


def main(given: Sequence[str] | None = None) -> int:
    """Print the table; end with 1 at any difference."""
    available = [item.name for item in available_sets()]
    parser = command(__doc__, "--json")
    parser.add_argument("--sets", nargs="+", default=available, choices=available, help="instruction sets (all)")
    parser.add_argument("--networks", nargs="+", choices=[network.name for network in NETWORKS], help="networks (all)")
    parser.add_argument("--samples", type=int, help="first samples of a file (all)")
    arguments = parser.parse_args(given)
    folder = required_models_folder()
    rows: list[dict[str, Any]] = []
    for network in NETWORKS:
        if arguments.networks and network.name not in arguments.networks:
            continue
        if (folder / "models" / f"{network.name}.onnx").exists():
            for row in check(network, folder, arguments.sets, arguments.samples):
                rows.append(row)
                print(f"{row['network']}, {row['input']}: {len(row['differences'])} differences", file=sys.stderr)
    write_json(arguments.json, rows)
    missed = [f"{row['network']}, {row['input']}: {line}" for row in rows for line in row["differences"]]
    shown = [[str(len(row[key]) if key == "differences" else row[key]) for key in COLUMNS] for row in rows]
    return finish(table(COLUMNS, shown), missed=missed)


if __name__ == "__main__":
    sys.exit(main())
