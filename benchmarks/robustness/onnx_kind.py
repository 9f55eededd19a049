"""Hostile ONNX models: read, compiled, emulated with 16-bit mantissas, and compared with ONNX Runtime.

ONNX Runtime computes the file as it is; the emulator what the compiler made of it. Rounding is no error: each output is
allowed 25 dB below its signal, or 30 times what ONNX Runtime's result moves by when every weight and every input moves
by 2^-13 of the largest of its tensor, which is more than the mantissas round. So a network that amplifies its rounding
is told from one that was compiled wrongly. ONNX Runtime's own LSTM and GRU are no judge beyond a recurrence weight of
10^5: their closed gates let some 10^-7 through, which such weights make a result of. Networks with quantizers are
right if the float network that they are compiled as gives the same, or, as quantizers of few values keep their
rounding, the file itself: how far both are apart is what `benchmarks/compiler/quantized.py` measures.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from damaged_files import check_message
from hostile_seeds import seed_networks
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx_mutations import mutant
from small_networks import WIDE

from benchmarks.common.command import models_folder
from benchmarks.robustness.children import Reader
from bfpga.accelerator.variants import accelerator_around
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.read.network import read_network
from bfpga.devices.emulator import Emulator
from bfpga.errors import BfpgaError
from bfpga.formats.onnx_runtime import onnxruntime

Arrays = list[npt.NDArray[Any]]
SAMPLES = 6
#: Of weights and inputs when the sensitivity of a network is found, relative to the largest of a tensor.
MOVED = 2.0**-13
#: Times which a result may differ by what it moved, and its own part that it may differ by in any case.
TIMES, SHARE = 30.0, 10 ** (-25 / 20)
#: Weights of recurrent states from which ONNX Runtime's gates are not closed.
LARGEST_RECURRENCE = 1e5


def open_onnx(name: str, folder: Path, seed: int) -> Reader:
    """Reads the mutant of a number in ``folder``."""
    seeds = seed_networks(models_folder())
    accelerator = accelerator_around(WIDE, "test")
    path = folder / "net.onnx"

    def read(index: int) -> str:
        content, _ = mutant(seeds, index, seed)
        path.write_bytes(content)
        try:
            network = read_network(path)
            samples = draw(network.inputs, index)
            program = compile_network(network, accelerator, samples)
            found = Emulator(program).run(samples).outputs
        except BfpgaError as error:
            check_message(str(error))
            return "refused"
        results = list(found.values())
        if not network.quantized:
            return judged(content, samples, results)
        answer = judged(network.model.SerializeToString(), samples, results)
        return "right" if answer != "right" and judged(content, samples, results) == "right" else answer

    return read


def draw(inputs: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, npt.NDArray[np.float32]]:
    generator = np.random.default_rng(seed)
    return {
        name: np.asarray(generator.normal(size=(SAMPLES, *shape)), np.float32) for name, shape in inputs.items()
    }


def judged(content: bytes, samples: Mapping[str, npt.NDArray[np.float32]], found: Arrays) -> str:
    """What ONNX Runtime says of the results, in a process that it may end: right, wrong or unjudged."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(15)
            os.write(writer, compare(content, samples, found).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text or "unjudged: ONNX Runtime ended the process"


def compare(content: bytes, samples: Mapping[str, npt.NDArray[np.float32]], found: Arrays) -> str:
    model = onnx.load_model_from_string(content)
    try:
        wanted = by_runtime(model, samples)
        moved = by_runtime(*moved_by_rounding(model, samples))
    except Exception as error:
        return f"unjudged: {type(error).__name__}"
    if len(wanted) != len(found):
        return f"wrong: {len(found)} outputs, {len(wanted)} are there"
    names = [item.name for item in model.graph.output]
    for name, value, expected, other in zip(names, found, wanted, moved, strict=True):
        text = difference(name, value, expected, other)
        if text:
            unsure = "differs" in text and recurrence(model) > LARGEST_RECURRENCE
            return "unjudged: gates of ONNX Runtime do not close" if unsure else text
    return "right"


def recurrence(model: ModelProto) -> float:
    """The largest weight of a recurrent state."""
    names = {node.input[2] for node in model.graph.node if node.op_type in ("GRU", "LSTM") and len(node.input) > 2}
    tensors = [numpy_helper.to_array(item) for item in model.graph.initializer if item.name in names]
    return max((float(np.abs(values).max(initial=0)) for values in tensors), default=0.0)


def difference(
    name: str, value: npt.NDArray[Any], expected: npt.NDArray[Any], moved: npt.NDArray[Any]
) -> str:
    """What is wrong with an output, empty if nothing is."""
    if value.shape != expected.shape:
        return f"wrong: output {name} has shape {value.shape}, {expected.shape} is right"
    wanted, far = expected.astype(np.float64), moved.astype(np.float64)
    if not (np.isfinite(wanted).all() and np.isfinite(far).all()):
        return "unjudged: not finite" if not np.isfinite(wanted).all() else ""
    error, allowed = norm(value - wanted), max(SHARE * norm(wanted), TIMES * norm(far - wanted))
    if expected.dtype.kind in "iub":  # places of the largest value turn over, all or nothing
        allowed = max(allowed, norm(wanted) / 2)
    if not error <= allowed:
        return f"wrong: output {name} differs by {error:.3g} of {norm(wanted):.3g}, {allowed:.3g} are allowed"
    return ""


def norm(values: npt.NDArray[Any]) -> float:
    return float(np.linalg.norm(values.astype(np.float64)))


def by_runtime(model: ModelProto, samples: Mapping[str, npt.NDArray[np.float32]]) -> Arrays:
    """All outputs of the file as it is; a batch that it states is met by parts."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    constants = {item.name for item in model.graph.initializer}
    fed = {item.name: item.type.tensor_type for item in model.graph.input if item.name not in constants}
    batches = {kind.shape.dim[0].dim_value for kind in fed.values() if kind.shape.dim} - {0}
    step = batches.pop() if batches else SAMPLES
    parts = []
    for start in range(0, SAMPLES, step):
        part = {name: cast(samples[name][start : start + step], kind.elem_type) for name, kind in fed.items()}
        parts.append([np.asarray(value) for value in session.run(None, part)])
    return [np.concatenate(values) if values[0].ndim else values[0] for values in zip(*parts, strict=True)]


def cast(values: npt.NDArray[np.float32], kind: int) -> npt.NDArray[Any]:
    """Samples in the type of an input, by way of integers where it has these, as the compiler's cast does."""
    return values.astype(helper.tensor_dtype_to_np_dtype(kind))


def moved_by_rounding(
    model: ModelProto, samples: Mapping[str, npt.NDArray[np.float32]]
) -> tuple[ModelProto, dict[str, npt.NDArray[np.float32]]]:
    """The model and samples with every weight and input moved by up to ``MOVED`` of the largest of its tensor."""
    generator = np.random.default_rng(0)

    def move(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        reach = float(np.abs(values).max(initial=0)) * MOVED
        with np.errstate(all="ignore"):
            return np.asarray(values + generator.uniform(-reach, reach, values.shape), np.float32)

    result = ModelProto()
    result.CopyFrom(model)
    for tensor in result.graph.initializer:
        inside = tensor.data_location != TensorProto.EXTERNAL
        if tensor.data_type == TensorProto.FLOAT and inside and len(tensor.dims) > 1:
            tensor.CopyFrom(numpy_helper.from_array(move(numpy_helper.to_array(tensor)), tensor.name))
    return result, {name: move(values) for name, values in samples.items()}
