"""Natural zeros of activations on the sparse cluster: layer by layer, with several ways to share them out.

    BFPGA_MODELS=FOLDER python -m benchmarks.sparse_cluster.activation_sparsity [--network NAME ...]
        [--accelerator NAME] [--samples N] [--markdown FILE]

Every convolution that the cluster can compute is given to it. Clocks are those of its computing operations, mean of N
real samples, counted by the emulator's model; one sample runs on compiled C++ and must count the same. Ways: pieces
of equal size; limits from counted channel words; what the compiler chose of these; the host's exchange of rows and
columns; work shared out exactly. The array's clocks are those of the same accelerator, with loads of weights.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import bfpga
from benchmarks.common.command import command, required_models_folder
from benchmarks.common.kernels import check_kernel
from benchmarks.common.networks import NETWORKS, network_samples
from benchmarks.common.report import finish
from benchmarks.sparse_cluster.balance import WAYS, clocks_by_way
from bfpga.compiler.dispatch.engine_clocks import engine_operations
from bfpga.compiler.options import CompileOptions
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import ArrayNode, BlockTensor, HostStep, Program
from bfpga.devices.emulator import Emulator
from bfpga.engines.beside.embedded_kernels import embedded_weights
from bfpga.engines.beside.tiles import input_rectangle


def cluster_nodes(program: Program) -> list[ArrayNode]:
    return [node for node in program.nodes if isinstance(node, ArrayNode) and node.engine == "sparse_cluster"]


def layer_clocks(program: Program, node: ArrayNode, tensor: BlockTensor) -> dict[str, npt.NDArray[np.float64]]:
    """Clocks of each sample by way, all strips together."""
    total = {way: np.zeros(len(tensor.mantissa)) for way in WAYS}
    steps = [step for step in program.steps if not isinstance(step, HostStep)]
    for operation, owner, tile in engine_operations(steps, cluster_nodes(program)):
        if owner is not node or operation.descriptor.operation != Operation.SPARSE or operation.first_only:
            continue
        image = program.tensors[node.inputs[0]]
        part = input_rectangle(node.window, image, tile)
        x = tensor.mantissa[:, part.y0 : part.y1, part.x0 : part.x1]
        weights = embedded_weights(node, image, tile.m0, tile.m1)
        for way, clocks in clocks_by_way(program.config, operation.descriptor, weights, x).items():
            total[way] += clocks
    return total


def table(name: str, folder: Path, accelerator: str, samples: int) -> list[str]:
    """Rows of one network."""
    network = next(network for network in NETWORKS if network.name == name)
    model = folder / "models" / f"{name}.onnx"
    x, calibration = network_samples(network, folder, model)
    program = bfpga.compile(model, accelerator, calibration, CompileOptions(engine="sparse_cluster"))
    array = bfpga.compile(model, accelerator, calibration, CompileOptions(engine="systolic_array"))
    inputs = {next(iter(program.inputs)): x[:samples]}
    emulator, of_array = Emulator(program), Emulator(array)
    # The input of the network is a tensor of the array too, which a trace does not hold.
    tensors = emulator.run(inputs, trace=True).tensors
    check_kernel(program, inputs)
    rows, sums = [], dict.fromkeys(("array", *WAYS), 0.0)
    for node in cluster_nodes(program):
        if node.inputs[0] not in tensors:
            continue
        clocks = layer_clocks(program, node, tensors[node.inputs[0]])
        mean = {way: float(values.mean()) for way, values in clocks.items()}
        mean["array"] = of_array.cycles.layers[node.name].compute + of_array.cycles.layers[node.name].weights
        for way in sums:
            sums[way] += mean[way]
        mantissa = tensors[node.inputs[0]].mantissa
        density = float((mantissa != 0).mean())
        shape = f"{mantissa.shape[1]}x{mantissa.shape[2]}x{mantissa.shape[3]} to {node.channels}"
        kernel = f"{node.window.kernel_height}x{node.window.kernel_width}"
        kernel += f"/{node.window.stride_y}" if node.window.stride_y > 1 else ""
        kernel += " depthwise" if node.groups > 1 else ""
        rows.append(
            f"| {name} | {shape} | {kernel} | {density:.2f} | {mean['array']:,.0f} |"
            + "".join(f" {mean[way]:,.0f} |" for way in WAYS)
        )
    rows.append(f"| {name} | all of these | | | {sums['array']:,.0f} |" + "".join(f" {sums[w]:,.0f} |" for w in WAYS))
    return rows


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--network", nargs="+", default=["resnet8_cifar10", "mobilenetv1_025_vww"])
    parser.add_argument("--accelerator", default="pynq_z2_sparse_loop")
    parser.add_argument("--samples", type=int, default=16)
    arguments = parser.parse_args(given)
    folder = required_models_folder()
    lines = ["| network | input to channels | kernel | density | array |" + "".join(f" {way} |" for way in WAYS),
             "|---|---|---|---|---|" + "---|" * len(WAYS)]  # fmt: skip
    for name in arguments.network:
        lines += table(name, folder, arguments.accelerator, arguments.samples)
    text = "\n".join(lines) + "\n"
    return finish(text, arguments.markdown)


if __name__ == "__main__":
    sys.exit(main())
