"""Small networks of many families on two accelerators: what the host keeps, how large the error is, whether bits agree.

    python -m benchmarks.compiler.network_table [--network NAME ...] [--write] [--operators]

Every network of ``network_zoo`` and ``exported_networks`` is compiled with 8-bit and with 16-bit mantissas, calibrated
on 32 random samples, and run on emulator and C simulation, which must give the same bits and count the same clocks. The
error is the root mean square of the difference to ONNX Runtime over that of the result. It counts as the format's own
up to four steps of a mantissa (and of a function's table, if layers use one) times the square root of the number of
layers in a row. Of a quantized network the results are its own, with quantizers as they are defined; where the array
does not repeat their rounding, that counts as the format's too, at most twice what it changes in float.
--write puts this table into docs/networks.md and those of the operators into docs/operators.md, --operators only the
latter. Ends with status 1 if a network is wrong.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx

import bfpga
from benchmarks.common.command import ROOT, command
from benchmarks.common.report import status, table, write_file
from benchmarks.compiler.exported_networks import EXPORTED
from benchmarks.compiler.network_zoo import ZOO, Member
from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.lower.accelerator_table import accelerator_table
from bfpga.compiler.lower.operator_table import operator_table
from bfpga.compiler.read.network import read_network
from bfpga.contract.functions import Function
from bfpga.contract.program import ArrayNode, HostNode, Program
from bfpga.devices.reference import FloatNetwork
from bfpga.errors import BfpgaError
from bfpga.formats.onnx_runtime import onnxruntime
from bfpga.program.cycles import program_cycles
from bfpga.program.host import host_nodes, host_share, kinds_of
from bfpga.runtime import open_device

DOCUMENT = ROOT / "docs" / "networks.md"
OPERATORS = ROOT / "docs" / "operators.md"
#: Accelerators by the bits of their mantissas.
ACCELERATORS = {8: "pynq_z2_dense", 16: "pynq_z2_bfp16"}
CALIBRATION, SAMPLES = 32, 4
#: Samples of the C simulation.
SIMULATED = 1
#: Steps of a mantissa that the error of one layer may come to, and the largest error of a function's table.
STEPS, TABLE_ERROR = 4, 6.7e-4
HEADINGS = ("network", "family", "MAC", "layers", "host nodes", "host share", "with all functions", "on the host",
            "error, 8 bits", "error, 16 bits", "bits")  # fmt: skip


@dataclass
class Outcome:
    """A network on one accelerator. problem: what is wrong; refused: why it was not compiled."""

    program: Program | None = None
    error: float = 0.0
    problem: str = ""
    refused: str = ""


def depth(program: Program) -> int:
    """Layers on the longest way through the network."""
    longest: dict[str, int] = {}
    for node in program.nodes:
        before = max((longest.get(name, 0) for name in node.inputs), default=0)
        outputs = node.outputs if isinstance(node, HostNode) else (node.output,)
        for name in outputs:
            longest[name] = max(longest.get(name, 0), before + (not isinstance(node, HostNode)))
    return max(longest.values(), default=1)


def allowed_error(program: Program) -> float:
    """The relative error that the format explains."""
    layers = [node for node in program.nodes if isinstance(node, ArrayNode)]
    step = 2.0 ** (1 - program.config.format.mantissa_bits)
    tables = TABLE_ERROR if any(node.function.row.on_grid for node in layers) else 0.0
    return float(STEPS * (step + tables) * np.sqrt(max(1, depth(program))))


def relative_error(found: Iterable[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest over the outputs."""
    return max(
        float(np.sqrt(np.mean((a - b) ** 2) / max(float(np.mean(b**2)), 1e-30)))
        for a, b in zip(found, expected, strict=True)
    )


def own_results(path: Path, samples: dict[str, np.ndarray]) -> tuple[list[np.ndarray], float]:
    """The outputs that count, and by how much a quantized network's own rounding moves them."""
    network = read_network(path)
    if not network.quantized:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        return session.run(None, samples), 0.0
    own, plain = ([*FloatNetwork(network, quantized=kept).run(samples).values()] for kept in (True, False))
    return own, relative_error(plain, own)


def difference(program: Program, samples: dict[str, np.ndarray]) -> str:
    """How emulator and C simulation differ; empty if they do not."""
    few = {name: value[:SIMULATED] for name, value in samples.items()}
    expected, device = open_device("emulator", program).run(few), open_device("csim", program)
    found = device.run(few)
    device.close()
    if any(not np.array_equal(found.outputs[name], expected.outputs[name]) for name in found.outputs):
        return "C simulation and emulator differ"
    if [layer.cycles for layer in found.layers] != [layer.cycles for layer in expected.layers]:
        return "C simulation and emulator count other clocks"
    return ""


def outcome(member: Member, path: Path, accelerator: str) -> Outcome:
    """Compile and run one network."""
    network = member.build()
    samples = {name: value[:SAMPLES] for name, value in network.samples(SAMPLES).items()}
    try:
        program = bfpga.compile(path, accelerator, network.samples(CALIBRATION))
    except BfpgaError as error:
        return Outcome(refused=str(error).split(": ", 1)[-1])
    own, rounding = own_results(path, samples)
    error = relative_error(open_device("emulator", program).run(samples).outputs.values(), own)
    result = Outcome(program, error, difference(program, samples))
    allowed = allowed_error(program) + 2 * rounding
    if not error <= allowed:
        result.problem = f"error {error:.4f}, the format explains {allowed:.4f}"
    return result


def full_share(member: Member, path: Path) -> float:
    """The host's share on the 8-bit accelerator if its function unit had all functions."""
    accelerator = load_accelerator(ACCELERATORS[8])
    functions = tuple(function.key for function in Function)
    full = replace(accelerator, config=replace(accelerator.config, functions=functions))
    return host_share(compile_network(path, full, member.build().samples(CALIBRATION)))


def row(member: Member, path: Path, found: dict[int, Outcome]) -> tuple[str, ...]:
    """A line of the table."""
    refused = next((item.refused for item in found.values() if item.refused), "")
    program = next((item.program for item in found.values() if item.program is not None), None)
    if program is None:
        return (member.name, member.family, "", "", "", "", "", f"refused: {refused}", "", "", "")
    kinds = kinds_of(host_nodes(program))
    work = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in kinds.items())
    layers = len(program.nodes) - len(host_nodes(program))
    errors = [f"{100 * found[bits].error:.2f} %" if bits in found else "" for bits in (8, 16)]
    problem = next((item.problem for item in found.values() if item.problem), "")
    macs = f"{program_cycles(program).macs:,}"
    shares = [f"{100 * share:.2f} %" for share in (host_share(program), full_share(member, path))]
    hosts = str(len(host_nodes(program)))
    return (member.name, member.family, macs, str(layers), hosts, *shares, work, *errors, problem or "same")


def measured(names: Sequence[str]) -> tuple[list[tuple[str, ...]], list[str]]:
    """Lines of all networks, and what is wrong."""
    rows, missed = [], []
    for member in (*ZOO, *EXPORTED):
        if names and member.name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{member.name}.onnx"
            onnx.save(member.build().model(), path)
            found = {bits: outcome(member, path, name) for bits, name in ACCELERATORS.items()}
            rows.append(row(member, path, found))
        print(" | ".join(rows[-1]), flush=True)
        missed += [f"{member.name}, {bits} bits: {item.problem}" for bits, item in found.items() if item.problem]
    return rows, missed


def with_section(text: str, name: str, content: str) -> str:
    """The document with new content between the marks of a section."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = text.split(begin)
    return f"{before}{begin}{content}\n{end}{rest.split(end, 1)[1]}"


def with_operators(text: str) -> str:
    """The page of operators with the tables of where each is computed and of what only some accelerators compute."""
    return with_section(with_section(text, "operators", operator_table()), "accelerators", accelerator_table())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("--network", action="append", default=[], help="only this network; may be given several times")
    parser.add_argument("--write", action="store_true", help="write the tables into the documents")
    parser.add_argument("--operators", action="store_true", help="write the table of operators alone, run nothing")
    options = parser.parse_args(arguments)
    if options.operators:
        write_file(OPERATORS, with_operators(OPERATORS.read_text()))
        return 0
    rows, missed = measured(options.network)
    text = table(HEADINGS, rows)
    if options.write and not options.network:
        write_file(DOCUMENT, with_section(DOCUMENT.read_text(), "networks", text))
        write_file(OPERATORS, with_operators(OPERATORS.read_text()))
    return status(missed)


if __name__ == "__main__":
    sys.exit(main())
