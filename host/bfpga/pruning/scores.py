"""Scores of a network whose weights are given anew with every run: ONNX Runtime, without a file for each variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, TensorProto, helper

from bfpga.compiler.read.importer import Graph
from bfpga.devices.host import onnx_session
from bfpga.formats.arrays import Float32Array, FloatArray
from bfpga.training.network import score_value

#: Samples of a run.
BATCH = 64
#: Since this version of the file format a constant may also be an input, and is then its default.
OVERRIDES = 4


class Scorer:
    """The float network up to its scores (the values before a softmax at its end)."""

    def __init__(self, graph: Graph, constants: Sequence[str]) -> None:
        """constants: names of those that a run may replace."""
        model = ModelProto()
        model.CopyFrom(graph.model)
        model.ir_version = max(model.ir_version, OVERRIDES)
        self.value = score_value(graph)
        del model.graph.output[:]
        model.graph.output.append(helper.make_empty_tensor_value_info(self.value))
        for name in constants:
            shape = graph.constants[name].shape
            model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self._session = onnx_session(model.SerializeToString())

    def scores(
        self, inputs: Mapping[str, Float32Array], constants: Mapping[str, FloatArray] | None = None
    ) -> Float32Array:
        """(samples, classes), with ``constants`` in the place of the network's own."""
        replaced = {name: np.asarray(values, np.float32) for name, values in (constants or {}).items()}
        parts = []
        for start in range(0, len(next(iter(inputs.values()))), BATCH):
            batch = {name: values[start : start + BATCH] for name, values in inputs.items()}
            result = self._session.run([self.value], {**batch, **replaced})[0]
            parts.append(np.asarray(result, np.float32).reshape(len(result), -1))
        return np.concatenate(parts)
