"""Networks with a process of rows, weights made of tensors and loaded tables, and without; host included.

    python -m benchmarks.compiler.on_the_chip [--network NAME ...] [--write]

Each network is compiled for `pynq_z2_dense`, which has none of these parts, and for `pynq_z2_transformer`; then
likewise for the ZCU104 and the KV260. Samples a second are those of a stream of them, what stays on the host on one of
the board's cores included, the driver not. SQNR is that of the emulator against ONNX Runtime in float. `minilm` needs
BFPGA_MODELS. --write renews the tables of docs/transformers.md.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from benchmarks.common.command import ROOT, command
from benchmarks.common.report import table, write_file
from benchmarks.compiler.network_table import with_section
from benchmarks.compiler.network_zoo import ZOO
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import Network, read_network
from bfpga.contract.program import Program
from bfpga.data import load_inputs
from bfpga.devices.reference import FloatNetwork, sqnr_db
from bfpga.engines.kernel.counted_resources import estimate_resources
from bfpga.estimate.sample import estimate_sample
from bfpga.program.host import host_nodes, host_share, kinds_of
from bfpga.runtime import run

PAGE = ROOT / "docs" / "transformers.md"
EXPORTED = ROOT / "tests" / "data" / "exported"
MODELS = Path(os.environ.get("BFPGA_MODELS", "models"))
#: Networks built here, and files that exporters wrote.
BUILT = (
    "vit_block", "transformer_encoder", "mlp_mixer", "convnext", "mobilenet_v3", "efficientnet", "yolo_v8", "wavenet",
    "gru", "lstm", "lstm_bidirectional", "crnn_kws", "espcn",
)  # fmt: skip
FILES = (
    "vit_legacy", "decoder_legacy", "mobilevit_legacy", "cbam_legacy", "gru_legacy", "bilstm_legacy", "keras_lstm",
    "yolo_legacy",
)  # fmt: skip
#: Networks whose steps wait for each other, and samples that a step computes side by side in a second line.
RECURRENT, TOGETHER = ("gru", "lstm", "lstm_bidirectional", "gru_legacy", "bilstm_legacy", "keras_lstm"), 8
CALIBRATION, SAMPLES = 16, 4
HEADINGS = ("network", "MAC", "samples/s before", "after", "times", "starts before", "after", "on the host before",
            "after", "SQNR before", "after")  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """An accelerator with the parts, and one without them on the same board."""

    before: Accelerator
    after: Accelerator


def pairs() -> dict[str, Pair]:
    """The accelerators by board."""
    return {
        board: Pair(load_accelerator(f"{board}_dense"), load_accelerator(f"{board}_transformer"))
        for board in ("pynq_z2", "zcu104", "kv260")
    }


def networks(names: Sequence[str], folder: Path) -> Iterator[tuple[str, Network, dict[str, np.ndarray]]]:
    """Name, network and samples; those that calibrate come first."""
    count = CALIBRATION + SAMPLES
    for member in ZOO:
        if member.name in BUILT and (not names or member.name in names):
            path = folder / f"{member.name}.onnx"
            onnx.save(member.build().model(), path)
            yield member.name, read_network(path), member.build().samples(count)
    for name in FILES:
        if not names or name in names:
            network, generator = read_network(EXPORTED / f"{name}.onnx"), np.random.default_rng(0)
            drawn = {key: generator.normal(size=(count, *shape)) for key, shape in network.inputs.items()}
            yield name, network, {key: value.astype(np.float32) for key, value in drawn.items()}
    path = MODELS / "models" / "minilm_layer0.onnx"
    if path.exists() and (not names or "minilm" in names):
        network = read_network(path)
        samples = load_inputs(MODELS / "data" / "minilm_layer0_hidden.npz", network.inputs).inputs
        yield "minilm", network, {name: value[:count] for name, value in samples.items()}


@dataclass(frozen=True)
class Outcome:
    """A network on one accelerator. host: what stays there."""

    program: Program
    rate: float
    sqnr: float

    @property
    def host(self) -> str:
        kinds = kinds_of(host_nodes(self.program))
        share = f"{100 * host_share(self.program):.1f} %"
        return f"{share}: {sum(kinds.values())} operators" if kinds else "nothing"


def outcome(network: Network, accelerator: Accelerator, samples: dict[str, np.ndarray], together: int = 1) -> Outcome:
    """Compile and run a network. together: samples side by side."""
    calibration = {name: value[:CALIBRATION] for name, value in samples.items()}
    program = compile_network(network, accelerator, calibration, CompileOptions(side_by_side=together))
    estimate = estimate_sample(accelerator, program, estimate_resources(accelerator.config).total)
    judged = {name: value[CALIBRATION:] for name, value in samples.items()}
    wanted, found = FloatNetwork(network).run(judged), run(program, judged).outputs
    sqnr = min(sqnr_db(wanted[name], found[name]) for name in found)
    return Outcome(program, 1 / estimate.seconds, sqnr)


def rows(pair: Pair, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """A line for each network."""
    with tempfile.TemporaryDirectory() as folder:
        for name, network, samples in networks(names, Path(folder)):
            before, after = (outcome(network, item, samples) for item in (pair.before, pair.after))
            yield line(name, before, after)
            if name in RECURRENT:
                yield line(f"{name}, {TOGETHER} side by side", before, outcome(network, pair.after, samples, TOGETHER))


def line(name: str, before: Outcome, after: Outcome) -> tuple[str, ...]:
    """The cells of a line."""
    macs = sum(getattr(node, "macs", 0) for node in after.program.nodes) // after.program.side_by_side
    return (
        name, f"{macs:,}", f"{before.rate:,.0f}", f"{after.rate:,.0f}", f"{after.rate / before.rate:.1f}",
        str(len(before.program.steps)), str(len(after.program.steps)), before.host, after.host,
        f"{before.sqnr:.1f}", f"{after.sqnr:.1f}",
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("--network", nargs="*", default=[], help="these only")
    parser.add_argument("--write", action="store_true", help="renew the table of docs/transformers.md")
    given = parser.parse_args(arguments)
    for board, pair in pairs().items():
        found = list(rows(pair, given.network))
        print(f"{board}\n{table(HEADINGS, found)}\n", flush=True)
        if given.write:
            write_file(PAGE, with_section(PAGE.read_text(encoding="utf-8"), board, table(HEADINGS, found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
