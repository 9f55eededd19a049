"""Quantized networks: QDQ, operators on integers, dynamic quantization and QONNX, read as one float network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, helper, numpy_helper

from bfpga.compiler.read.float_quant import with_float_weights
from bfpga.compiler.read.graphs import copied, rename
from bfpga.compiler.read.grids import SAME_VALUES, Grid
from bfpga.compiler.read.microscaling import DOMAIN as QUARK
from bfpga.compiler.read.microscaling import with_block_weights, with_written_blocks
from bfpga.compiler.read.qonnx import DOMAINS as QONNX
from bfpga.compiler.read.qonnx import in_standard_operators, limited_integers
from bfpga.compiler.read.qoperators import REWRITES, between_quantizers
from bfpga.compiler.read.quantizers import FloatForm, Meaning
from bfpga.compiler.read.scaling import fill_mantissas, fold_factors
from bfpga.compiler.read.simplify import fold_constants, without_unused

#: Standard operators of quantized networks.
OPERATORS = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger")
#: Domains whose operators are written out.
DOMAINS = (*QONNX, QUARK)


@dataclass(frozen=True)
class FloatNetworkForm:
    """A network in float, and the quantized one.

    reference: the network that its results are judged by: quantized as in the file, borders in float32. grids: of the
    values that were quantized, by name. notes: about what was left out, and what of the quantizers is not kept.
    """

    model: ModelProto
    reference: ModelProto
    grids: dict[str, Grid] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def quantized(self) -> bool:
        """Whether the file held a quantized network."""
        return self.reference is not self.model


def is_quantized(model: ModelProto) -> bool:
    """Whether a model has operators of quantized networks."""
    kinds = (*OPERATORS, *REWRITES)
    return any(node.op_type in kinds or node.domain in DOMAINS for node in model.graph.node)


def in_float(model: ModelProto, path: str | Path) -> FloatNetworkForm:
    """A model as a float network; one that is not quantized stays as it is.

    ModelError for quantizers whose numbers are computed, or which nothing defines.
    """
    if not is_quantized(model):
        return FloatNetworkForm(model, model)
    folded = fold_constants(model)
    folded = with_block_weights(with_float_weights(folded, _constants(folded), path), _constants(folded), path)
    folded = fold_constants(folded)
    reference, _ = with_written_blocks(in_standard_operators(folded, _constants(folded), path), path)
    reference = without_domains(reference, DOMAINS)
    plain, notes = with_written_blocks(folded, path, whole=False)
    plain = between_quantizers(plain, _constants(plain), path)
    plain = fold_constants(in_standard_operators(plain, _constants(plain), path, weights_only=True))
    form = FloatForm(plain, _constants(plain), path)
    result = without_unused(without_domains(form.run(), DOMAINS))
    grids = spread(form.grids, result)
    result, grids = fill_mantissas(fold_factors(result), grids)
    integers = {value.name: form.meanings[value.name] for value in model.graph.output if value.name in form.meanings}
    values = {value.name for value in result.graph.input} | {name for node in result.graph.node for name in node.output}
    grids = {name: grid for name, grid in spread(grids, result).items() if name in values}
    notes = list(dict.fromkeys([*notes, *form.notes, *limited_integers(folded, _constants(folded), path)]))
    return FloatNetworkForm(result, _with_values(reference, integers), grids, tuple(notes))


def _constants(model: ModelProto) -> dict[str, npt.NDArray[np.generic]]:
    return {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}


def without_domains(model: ModelProto, domains: Iterable[str]) -> ModelProto:
    """The model without imports of domains, which runtimes refuse that do not know them; changes it."""
    kept = [item for item in model.opset_import if item.domain not in domains]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    return model


def _with_values(model: ModelProto, outputs: dict[str, Meaning]) -> ModelProto:
    """The quantized network whose outputs of integers are given as the values of these."""
    if not outputs:
        return model
    result = copied(model)
    for output in (value for value in result.graph.output if value.name in outputs):
        meaning, integers = outputs[output.name], f"{output.name}/integers"
        for node in result.graph.node:
            rename(node.input, output.name, integers)
            rename(node.output, output.name, integers)
        names = [f"{output.name}/{part}" for part in ("float", "scale", "zero_point")]
        for name, number in zip(names[1:], (meaning.scale, meaning.zero_point), strict=True):
            result.graph.initializer.append(numpy_helper.from_array(number.astype(np.float32), name))
        result.graph.node.append(helper.make_node("Cast", [integers], [names[0]], to=1))
        result.graph.node.append(helper.make_node("Sub", [names[0], names[2]], [f"{output.name}/centered"]))
        result.graph.node.append(helper.make_node("Mul", [f"{output.name}/centered", names[1]], [output.name]))
        output.type.tensor_type.elem_type = 1
    return result


def spread(grids: dict[str, Grid], model: ModelProto) -> dict[str, Grid]:
    """Grids of more values: after and before operators that only move values, and of what is concatenated."""
    result = dict(grids)
    for node in model.graph.node:
        if node.op_type in SAME_VALUES and node.input[0] in result:
            result.setdefault(node.output[0], result[node.input[0]])
        elif node.op_type == "Concat" and all(name in result for name in node.input):
            joined = result[node.input[0]]
            for name in node.input[1:]:
                joined = joined.with_other(result[name])
            result.setdefault(node.output[0], joined)
    readers: dict[str, int] = {}
    for node in model.graph.node:
        for name in set(node.input):
            readers[name] = readers.get(name, 0) + 1
    for node in reversed(model.graph.node):
        if node.op_type in SAME_VALUES and node.output[0] in result and readers[node.input[0]] == 1:
            result.setdefault(node.input[0], result[node.output[0]])
    return result
