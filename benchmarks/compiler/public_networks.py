"""Public networks of others on an 8-bit and a 16-bit accelerator: one table, one command.

    python -m benchmarks.compiler.public_networks DIR [--network NAME ...] [--write]

Every ONNX file of DIR is compiled, calibrated on a few random samples, and run on emulator and C simulation, which must
give the same bits. The error is the root mean square of the difference to the network's own results, of quantized
networks with quantizers as they are defined. With 16 bits it may be 4 %; more where the network's own results change as
much when float attributes (a slope of 0.1) move by one unit in float32's last place ("last bit"), or where EXPLAINED
says why. With 8 bits it may be what the format explains and what dropping the quantizers' rounding, not their limits,
changes in float ("in float"). The dearest operator is the host's with the most operations. --write puts the table into
docs/networks.md. Ends with 1 if a network is refused or wrong.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

import bfpga
from benchmarks.common.command import command
from benchmarks.common.report import status, table, write_file
from benchmarks.compiler.network_table import (
    ACCELERATORS,
    DOCUMENT,
    allowed_error,
    difference,
    relative_error,
    with_section,
)
from bfpga.compiler.lower.operations import count_operations
from bfpga.compiler.read.network import Network, read_network
from bfpga.contract.program import Program
from bfpga.devices.reference import FloatNetwork
from bfpga.errors import BfpgaError
from bfpga.program.cycles import program_cycles
from bfpga.program.host import host_nodes, host_share, kinds_of
from bfpga.runtime import open_device

#: Samples, and of how many values of the inputs together there is one sample alone.
SAMPLES, LARGE = 2, 1 << 17
#: The largest error with 16 bits, and networks that may have a larger one, with the reason.
MOST = 0.04
EXPLAINED = {
    "zoo_tfc_1w1a": (0.1, "a BipolarQuant takes values from -2^-13 to 0 as positive"),
}
HEADINGS = ("network", "MAC", "layers", "host share", "on the host", "dearest", "in float", "last bit",
            "error, 8 bits", "error, 16 bits", "bits")  # fmt: skip


@dataclass
class Found:
    """A network on the accelerators, by bits. problems: what is wrong, a line each."""

    programs: dict[int, Program] = field(default_factory=dict)
    errors: dict[int, float] = field(default_factory=dict)
    rounding: float = 0.0
    last_bit: float = 0.0
    problems: list[str] = field(default_factory=list)


def samples_of(network: Network) -> dict[str, np.ndarray]:
    """Random samples between -1 and 1."""
    generator = np.random.default_rng(0)
    shapes = network.inputs.items()
    count = 1 if sum(int(np.prod(shape)) for _, shape in shapes) > LARGE else SAMPLES
    return {name: generator.uniform(-1, 1, (count, *shape)).astype(np.float32) for name, shape in shapes}


def limited(network: Network) -> Network:
    """The network whose float form keeps the limits of quantizers that mantissas keep otherwise."""
    model = onnx.ModelProto()
    model.CopyFrom(network.model)
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        model.graph.node.append(node)
        for index, name in enumerate(node.output):
            grid = network.grids.get(name)
            if grid is None or not grid.saturates:
                continue
            parts = [f"{name}/{part}" for part in ("open", "low", "high")]
            model.graph.node[-1].output[index] = parts[0]
            for part, limit in zip(parts[1:], (grid.low, grid.high), strict=True):
                model.graph.initializer.append(numpy_helper.from_array(np.float32(limit), part))
            model.graph.node.append(helper.make_node("Clip", parts, [name]))
    return replace(network, model=model)


def with_other_last_bits(network: Network, up: bool) -> Network:
    """The network whose float attributes are the next numbers of float32 above, or below."""
    reference = onnx.ModelProto()
    reference.CopyFrom(network.reference)
    for node in reference.graph.node:
        for item in node.attribute:
            if item.type == onnx.AttributeProto.FLOAT:
                item.f = float(np.nextafter(np.float32(item.f), np.float32(np.inf if up else -np.inf)))
    return replace(network, reference=reference)


def own_results(network: Network, samples: dict[str, np.ndarray]) -> list[npt.NDArray[np.float32]]:
    return [*FloatNetwork(network, quantized=True).run(samples).values()]


def measured(network: Network) -> Found:
    """The network compiled and run; BfpgaError where it is refused."""
    found, samples = Found(), samples_of(network)
    own = own_results(network, samples)
    found.rounding = relative_error(FloatNetwork(limited(network)).run(samples).values(), own)
    others = [own_results(with_other_last_bits(network, up), samples) for up in (False, True)]
    found.last_bit = max(relative_error(other, own) for other in others)
    most = max(MOST, found.last_bit, EXPLAINED.get(network.name, (0.0, ""))[0])
    for bits, accelerator in ACCELERATORS.items():
        program = bfpga.compile(network, accelerator, samples)
        results = open_device("emulator", program).run(samples).outputs.values()
        found.programs[bits], found.errors[bits] = program, relative_error(results, own)
        problem = difference(program, samples)
        if problem:
            found.problems.append(f"{bits} bits: {problem}")
        allowed = most if bits > 8 else max(most, allowed_error(program) + found.rounding)
        if not found.errors[bits] <= allowed:
            found.problems.append(f"{bits} bits: error {found.errors[bits]:.4f}, {allowed:.4f} is explained")
    return found


def dearest(network: Network, program: Program) -> str:
    """The type of the host's operators that take the most operations, empty without any."""
    work = count_operations(network.graph().model)
    types = {name: node.op_type for node in network.graph().model.graph.node for name in node.output}
    hosts = {kind for node in host_nodes(program) for kind in node.operators}
    sums: Counter[str] = Counter()
    for name, operations in work.items():
        if types.get(name) in hosts:
            sums[types[name]] += operations
    return sums.most_common(1)[0][0] if sums else ""


def row(network: Network, found: Found) -> tuple[str, ...]:
    program = found.programs[8]
    kinds = kinds_of(host_nodes(program))
    work = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in kinds.items())
    numbers = (found.rounding, found.last_bit, found.errors[8], found.errors[16])
    figures = [f"{100 * number:.2f} %" for number in numbers]
    layers = str(len(program.nodes) - len(host_nodes(program)))
    share = f"{100 * host_share(program):.2f} %"
    return (network.name, f"{program_cycles(program).macs:,}", layers, share, work, dearest(network, program), *figures,
            "; ".join(found.problems) or "same")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of ONNX files")
    parser.add_argument("--network", action="append", default=[], help="only this network; may be given several times")
    parser.add_argument("--write", action="store_true", help="write the table into docs/networks.md")
    options = parser.parse_args(arguments)
    rows: list[tuple[str, ...]] = []
    missed: list[str] = []
    for path in sorted(options.folder.glob("*.onnx")):
        if options.network and path.stem not in options.network:
            continue
        try:
            network = read_network(path)
            found = measured(network)
            rows.append(row(network, found))
            missed += [f"{path.stem}, {problem}" for problem in found.problems]
        except BfpgaError as error:
            missed.append(f"{path.stem}: refused: {error}")
            rows.append((path.stem, *[""] * (len(HEADINGS) - 2), "refused"))
        print(" | ".join(rows[-1]), flush=True)
    if options.write and not options.network:
        write_file(DOCUMENT, with_section(DOCUMENT.read_text(), "public networks", table(HEADINGS, rows)))
    return status(missed)


if __name__ == "__main__":
    sys.exit(main())
