"""ONNX's own tests of single operators for what the array computes: none wrong, none a crash.

    python -m benchmarks.compiler.node_tests [--operator NAME ...] [--all] [--verbose] [--write]

Every test of the `onnx` package with float32 values becomes a network: its first input is the network's, with the first
axis as the batch, the others are constants. So that the operator is not alone among operators of the host, pooling of
single pixels (or a product with the identity) stands in front of it and behind it. The network is compiled for a
16-bit array with all functions, calibrated on the test's own values, run on emulator and C simulation, and compared
with the test's results. ``--all``: operators that only the host computes, too. ``--write`` puts the counts into
docs/networks.md. Ends with status 1 if a result is wrong, if bits differ, or if anything but a clear message ends a
test.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

from benchmarks.common.command import command
from benchmarks.common.report import status, table, write_file
from benchmarks.compiler.network_table import DOCUMENT, with_section
from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.lower.operator_table import array_operators
from bfpga.compiler.lower.recurrent import GATES
from bfpga.compiler.read.opsets import OPSETS
from bfpga.contract.program import HostNode, Program
from bfpga.errors import BfpgaError
from bfpga.formats.onnx_runtime import onnxruntime
from bfpga.runtime import open_device

#: 16-bit mantissas and all functions.
ACCELERATOR = load_accelerator("pynq_z2_bfp16")
ACCELERATOR = replace(
    ACCELERATOR, config=replace(ACCELERATOR.config, functions=load_accelerator("tiny").config.functions)
)
#: Largest difference over the largest result: 16-bit mantissas and the tables of functions.
TOLERANCE = 4e-3
#: Operators of which every input is computed, if it has the batch.
SEVERAL = ("Add", "Sub", "Mul", "Div", "Concat", "MatMul", "Max", "Min")
#: How often the values are given for calibration: few samples would make further ones expected that are larger.
REPEATS = 8
HEADINGS = ("operator", "tests", "array", "array and host", "host", "refused", "wrong", "crash")


class UnfitError(Exception):
    """A test that is no network of float32 values with a batch."""


@dataclass
class Case:
    """A test as a network, with its values."""

    model: ModelProto
    samples: dict[str, np.ndarray]
    expected: list[np.ndarray]


def values(folder: Path, kind: str) -> list[np.ndarray]:
    """Tensors of the first data set."""
    files = sorted((folder / "test_data_set_0").glob(f"{kind}_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
    result = []
    for file in files:
        tensor = TensorProto()
        tensor.ParseFromString(file.read_bytes())
        result.append(numpy_helper.to_array(tensor))
    return result


def case(folder: Path) -> Case:
    """The network of a test; UnfitError if it cannot be one."""
    model = readable(onnx.load(folder / "model.onnx"))
    node, names = onnx.NodeProto(), [value.name for value in model.graph.input]
    node.CopyFrom(model.graph.node[0])
    inputs, outputs = values(folder, "input"), values(folder, "output")
    if len(model.graph.node) != 1 or not names or len(names) != len(inputs):
        raise UnfitError("not one operator")
    if any(value.dtype != np.float32 or not value.size or not value.ndim for value in [inputs[0], *outputs]):
        raise UnfitError("no float32 values")
    turned, behind = [], [list(range(value.ndim)) for value in outputs]
    x = inputs[0]
    if node.op_type in GATES and not any(item.name == "layout" and item.i for item in node.attribute):
        x, turned = x.transpose(1, 0, 2), [1, 0, 2]
        behind = [[2, 0, 1, 3] if value.ndim == 4 else [1, 0, 2] for value in outputs]
    outputs = [value.transpose(order) for value, order in zip(outputs, behind, strict=True)]
    if any(len(value) != len(x) for value in outputs):
        raise UnfitError("no batch")
    constants, nodes = [], []
    samples = {"network_input": np.ascontiguousarray(x)}
    for name, value in zip(names[1:], inputs[1:], strict=True):
        if node.op_type in SEVERAL and value.dtype == np.float32 and value.ndim == x.ndim and len(value) == len(x):
            samples[f"network_{name}"] = value
            nodes += _identity(value.shape, f"network_{name}", name, constants)
        else:
            constants.append(numpy_helper.from_array(value, name))
    nodes += _identity(x.shape, "network_input", "begun", constants)
    nodes.append(helper.make_node("Transpose" if turned else "Identity", ["begun"], [names[0]],
                                  **({"perm": turned} if turned else {})))  # fmt: skip
    nodes.append(node)
    results = []
    for number, (value, order) in enumerate(zip(model.graph.output, behind, strict=True)):
        shape, name = outputs[number].shape, f"result_{number}"
        kind = "Identity" if order == sorted(order) else "Transpose"
        turning = {"perm": order} if kind == "Transpose" else {}
        nodes.append(helper.make_node(kind, [value.name], [f"{name}_inner"], **turning))
        nodes += _identity(shape, f"{name}_inner", name, constants)
        results.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *shape[1:]]))
    begin = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *value.shape[1:]])
             for name, value in samples.items()]  # fmt: skip
    body = helper.make_graph(nodes, "test", begin, results, constants)
    network = helper.make_model(body, opset_imports=list(model.opset_import), ir_version=min(model.ir_version, 10))
    return Case(network, samples, outputs)


def readable(model: ModelProto) -> ModelProto:
    """The model in the newest opset that is read, if its own is newer and its operators did not change since."""
    for item in model.opset_import:
        if item.domain == "" and item.version > OPSETS[1]:
            item.version = OPSETS[1]
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise UnfitError("another opset") from error
    return model


def _identity(shape: tuple[int, ...], source: str, target: str, constants: list[TensorProto]) -> list[onnx.NodeProto]:
    """An operator of the array that changes nothing."""
    if len(shape) in (3, 4):
        return [helper.make_node("MaxPool", [source], [target], name=target, kernel_shape=[1] * (len(shape) - 2))]
    if len(shape) == 2:
        matrix = numpy_helper.from_array(np.eye(shape[1], dtype=np.float32), f"{target}_identity")
        constants.append(matrix)
        return [helper.make_node("MatMul", [source, matrix.name], [target], name=target)]
    return [helper.make_node("Identity", [source], [target], name=target)]


def judged(item: Case, kind: str, folder: Path) -> tuple[str, str]:
    """(what became of a test, what there is to say)."""
    path = folder / "test.onnx"
    onnx.save(item.model, path)
    try:
        calibration = {name: np.repeat(value, REPEATS, axis=0) for name, value in item.samples.items()}
        program = compile_network(path, ACCELERATOR, calibration)
    except BfpgaError as error:
        return "refused", str(error).split(": ", 1)[-1]
    found = list(open_device("emulator", program).run(item.samples).outputs.values())
    device = open_device("csim", program)
    same = list(device.run(item.samples).outputs.values())
    device.close()
    if not all(map(np.array_equal, found, same)):
        return "wrong", "C simulation and emulator differ"
    place = _place(program, kind)
    if _close(found, item.expected):
        return place, ""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    if _close(found, session.run(None, item.samples)):
        return place, "as ONNX Runtime, which differs from the test"
    return "wrong", f"found {found[0].reshape(-1)[:4]}, expected {item.expected[0].reshape(-1)[:4]}"


def _close(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> bool:
    """Whether all results are those expected but for what 16-bit mantissas and tables lose."""
    pairs = list(zip(found, expected, strict=True))
    if any(a.shape != b.shape for a, b in pairs):
        return False
    return all(float(np.abs(a - b).max(initial=0)) <= TOLERANCE * max(float(np.abs(b).max(initial=0)), 1e-6)
               for a, b in pairs)  # fmt: skip


def _place(program: Program, kind: str) -> str:
    """Where the operator was computed: the operators in front and behind are the array's."""
    host = [node for node in program.nodes if isinstance(node, HostNode)]
    if not host:
        return "array"
    return "host" if any(kind in node.operators for node in host) else "array and host"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("--operator", action="append", default=[], help="only tests of this operator")
    parser.add_argument("--all", action="store_true", help="tests of operators that only the host computes, too")
    parser.add_argument("--verbose", action="store_true", help="print what became of every test")
    parser.add_argument("--write", action="store_true", help="write the counts into docs/networks.md")
    options = parser.parse_args(arguments)
    counts: dict[str, Counter[str]] = {}
    missed = []
    for test in load_model_tests(kind="node"):
        folder = Path(test.model_dir)
        kind = onnx.load(folder / "model.onnx").graph.node[0].op_type
        wanted = kind in options.operator if options.operator else options.all or kind in array_operators()
        if not wanted:
            continue
        try:
            item = case(folder)
        except UnfitError:
            continue
        with tempfile.TemporaryDirectory() as place:
            try:
                result, text = judged(item, kind, Path(place))
            except Exception as error:
                result, text = "crash", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        counts.setdefault(kind, Counter())[result] += 1
        if result in ("wrong", "crash"):
            missed.append(f"{folder.name}: {result}: {text}")
        if options.verbose:
            print(f"{folder.name}: {result} {text}", flush=True)
    total = sum(counts.values(), Counter())
    rows = [(kind, str(sum(found.values())), *(str(found[name]) if found[name] else "" for name in HEADINGS[2:]))
            for kind, found in [*sorted(counts.items()), ("all", total)]]  # fmt: skip
    text = table(HEADINGS, rows)
    print(text)
    if options.write and not options.operator:
        write_file(DOCUMENT, with_section(DOCUMENT.read_text(), "node tests", text))
    return status(missed)


if __name__ == "__main__":
    sys.exit(main())
