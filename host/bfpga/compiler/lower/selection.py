"""What an operator makes of given values: rules of ONNX that are evaluated, not written a second time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper, numpy_helper

from bfpga.compiler.lower.layers import IndexArray, positions
from bfpga.compiler.lower.state import NotOnArrayError
from bfpga.compiler.read.importer import Graph, Operator
from bfpga.compiler.read.simplify import session

Float32Array = npt.NDArray[np.float32]
#: Whole numbers that float32 holds.
EXACT = 1 << 24


def apply_operator(graph: Graph, operator: Operator, value: Float32Array, output: int = 0) -> Float32Array:
    """A result of an operator of one computed input, given that input (batch axis first).

    Raises NotOnArrayError if ONNX Runtime cannot run it.
    """
    node = NodeProto()
    node.CopyFrom(operator.proto)
    constants = [numpy_helper.from_array(np.asarray(graph.constants[name]), name)
                 for name in dict.fromkeys(operator.inputs[1:]) if name in graph.constants]  # fmt: skip
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            for name in (operator.inputs[0], operator.outputs[output])]  # fmt: skip
    body = helper.make_graph([node], "operator", ends[:1], ends[1:], constants)
    model = helper.make_model(body, opset_imports=list(graph.model.opset_import), ir_version=graph.model.ir_version)
    try:
        result = session(model).run(None, {operator.inputs[0]: value})[0]
    except Exception as error:
        raise NotOnArrayError("it depends on more than its input's shape") from error
    return np.asarray(result, np.float32)


def selected_positions(graph: Graph, operator: Operator, output: int) -> IndexArray:
    """Which elements of its input an operator that only selects gives, without the batch axis.

    Raises NotOnArrayError if it selects samples too, or if elements are too many to be distinguished.
    """
    shape, target = (graph.shapes.get(name) for name in (operator.inputs[0], operator.outputs[output]))
    if shape is None or target is None:
        raise NotOnArrayError("the shape of its input is not known, or does not follow the batch")
    if 2 * np.prod(shape) >= EXACT:
        raise NotOnArrayError("its input has too many elements")
    # Two samples show whether it keeps them apart.
    numbers = np.stack([positions(shape), positions(shape) + int(np.prod(shape))]).astype(np.float32)
    result = apply_operator(graph, operator, numbers, output)
    if result.shape != (2, *target) or not np.array_equal(result[1], result[0] + np.float32(np.prod(shape))):
        raise NotOnArrayError("it selects samples of the batch")
    return np.asarray(result[0], np.int64)
