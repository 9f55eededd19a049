"""Counted clocks of networks on an accelerator, weights resident where they fit: one table, one command.

    [BFPGA_MODELS=FOLDER] python -m benchmarks.compiler.cycles [--accelerator NAME] [--zeros N] [--markdown FILE]

The schedule does not depend on the samples, so noise calibrates, unless an array skips zeros of activations: N samples
each network tell then how many there are; without them activations count as if none was zero. Clocks of the emulator's
model are those that the C++ counts (`bfpga verify` compares them). Networks are those of FOLDER/models, or the shipped
ones.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.command import EXAMPLES, command, models_folder
from benchmarks.common.networks import NETWORKS, Float32Array, network_samples
from benchmarks.common.report import finish
from bfpga.accelerator.loader import load_accelerator
from bfpga.cli.report_host import rate
from bfpga.cli.work import compile_for_estimate
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.read.network import read_network
from bfpga.contract.program import ArrayNode, HostNode
from bfpga.estimate.program import estimate_program
from bfpga.program.host import host_nodes, host_share

#: Samples of a start whose operations overlap.
OVERLAPPED_SAMPLES = 16


def first_samples(model: Path, count: int) -> dict[str, Float32Array] | None:
    """So many samples that calibrate a network of $BFPGA_MODELS; None for no samples, or a network without any."""
    folder = models_folder()
    known = [network for network in NETWORKS if network.name == model.stem]
    if count == 0 or folder is None or not known:
        return None
    return {read_input(model): network_samples(known[0], folder, model)[1][:count]}


def read_input(model: Path) -> str:
    """The name of a network's input."""
    return next(iter(read_network(model).inputs))


def row(model: Path, accelerator_name: str, zeros: int = 0) -> str:
    """One line of the table. zeros: samples that zeros of activations are counted on.

    Utilization is that of layers with products, above 100 % where zeros take no time.
    """
    accelerator = load_accelerator(accelerator_name)
    samples = first_samples(model, zeros)
    program = compile_for_estimate(accelerator, read_network(model), samples, CompileOptions())
    estimate = estimate_program(accelerator, program)
    cycles, peak = estimate.cycles, accelerator.config.macs_per_clock
    products = [node for node in program.nodes if isinstance(node, ArrayNode) and node.kind == "gemm"]
    convolutions = [node for node in products if not node.uniform_weights]
    spent = sum(cycles.layers[node.name].compute for node in convolutions)
    share = 100 * sum(node.macs for node in convolutions) / (spent * peak) if spent else 0.0
    macs = sum(node.macs for node in program.nodes if not isinstance(node, HostNode))
    cores = accelerator.board.arm_cores
    assert cores is not None, f"{accelerator.board.name} has no arm_cores"
    each = f"{-(-cycles.scheduled(OVERLAPPED_SAMPLES) // OVERLAPPED_SAMPLES):,}"
    whole = estimate.seconds + sum(map(cores.node_seconds, host_nodes(program)))
    milliseconds = [1e3 * seconds for seconds in (estimate.compute_seconds, estimate.seconds)]
    return (
        f"| {model.stem} | {macs / 1e6:,.2f} | {cycles.compute_bound:,} | {milliseconds[0]:.3f} | {share:.1f} % | "
        f"{cycles.dma_inclusive:,} | {each} | {milliseconds[1]:.3f} | {rate(1 / estimate.seconds)} | "
        f"{100 * host_share(program):.2f} % | {rate(1 / whole)} |"
    )


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--accelerator", default="pynq_z2_dense")
    parser.add_argument(
        "--zeros", type=int, default=0, metavar="N", help="count zeros of activations on N samples of each network"
    )
    arguments = parser.parse_args(given)
    models = models_folder()
    folder = models / "models" if models else EXAMPLES
    lines = [
        "| network | MMAC | compute-bound cycles | ms | utilization, layers with weights | DMA-inclusive cycles | "
        f"schedule, each of {OVERLAPPED_SAMPLES} samples | ms | "
        "images/s, the array alone | host, of the operations | images/s with it (estimated) |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(row(model, arguments.accelerator, arguments.zeros) for model in sorted(folder.glob("*.onnx"))),
    ]
    text = "\n".join(lines) + "\n"
    if load_accelerator(arguments.accelerator).config.array.computes_runs and arguments.zeros == 0:
        text += "\nNo activation counts as zero; --zeros N counts them on N samples.\n"
    return finish(text, arguments.markdown)


if __name__ == "__main__":
    sys.exit(main())
