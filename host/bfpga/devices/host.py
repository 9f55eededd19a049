"""The operators a program leaves to the host: ONNX Runtime where it is installed, a small numpy set otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from bfpga.contract.program import HostNode
from bfpga.devices.host_batches import HostArray, HostFunction, in_batches
from bfpga.devices.host_operators import compile_model
from bfpga.errors import BfpgaError, DataError, ProgramError
from bfpga.formats.files import first_line
from bfpga.scale.threads import stated_threads

#: Operators of a node that a message names.
SHOWN = 8


def onnx_runtime_installed() -> bool:
    """Whether operators of the host can be run by ONNX Runtime."""
    return find_spec("onnxruntime") is not None


def onnx_session(model: bytes, threads: int = 0) -> Any:
    """A session of ONNX Runtime on the CPU; threads: 0 for $BFPGA_THREADS, or one a core. Idle threads do not spin."""
    from bfpga.formats.onnx_runtime import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised
    options.intra_op_num_threads = threads or stated_threads() or 0
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Quantizers as they are defined: fused into products of bytes, these overflow on processors without VNNI.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    # What 1.23, the newest for Python 3.10, fuses so, transposes of three axes included, it cannot compute.
    return onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"], disabled_optimizers=["GemmTransposeFusion"]
    )


def host_function(node: HostNode, *, numpy_only: bool = False) -> HostFunction:
    """The function from input values to output values, by ONNX name, of one host node.

    Many samples go into one call where that gives each the same bits as alone (``host_batches``), else they are
    computed one by one: all devices give the same bits however they cut their batches. It also serves networks exported
    for a batch of one.
    ProgramError, naming the operator, if ONNX Runtime is missing and the numpy set does not have it, and for a model
    that it does not take. The function raises DataError for values that an operator does not take, as an index beyond
    its table.
    """
    try:
        if numpy_only or not onnx_runtime_installed():
            return _guarded(node, in_batches(node, compile_model(node.model, node.name)))
        session = onnx_session(node.model)
    except BfpgaError:
        raise
    except Exception as error:
        raise ProgramError(f"{_work(node)} cannot be computed on the host: {first_line(error)}") from error
    wanted = [value.name for value in session.get_outputs()]
    needed = [value.name for value in session.get_inputs()]
    if not set(needed) <= set(node.inputs) or not set(node.outputs) <= set(wanted):
        raise ProgramError(f"host node {node.name} computes {wanted} from {needed}, not what its program says")

    def run(values: Mapping[str, HostArray]) -> dict[str, HostArray]:
        results = session.run(wanted, {name: values[name] for name in needed})
        return {name: np.asarray(result) for name, result in zip(wanted, results, strict=True)}

    return _guarded(node, in_batches(node, run))


def _work(node: HostNode) -> str:
    """A node and what it computes, as far as a message holds it."""
    more = ["..."] if len(node.operators) > SHOWN else []
    return f"{node.name} ({', '.join([*node.operators[:SHOWN], *more])})"


def _guarded(node: HostNode, function: HostFunction) -> HostFunction:
    def run(values: Mapping[str, HostArray]) -> dict[str, HostArray]:
        try:
            return function(values)
        except Exception as error:
            raise DataError(f"{_work(node)} cannot compute these values: {first_line(error)}") from error

    return run
