"""What QONNX files leave out or write in their own way before their quantizers are looked at.

Exporters and transformations of QONNX use its domains without importing them. Its operators for channels last are those
of ONNX with the channels of input, weights and result after the pixels.
"""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto, NodeProto, helper

from bfpga.compiler.read.graphs import all_nodes, attributes_of, copied, replace_nodes
from bfpga.compiler.read.qonnx import CHANNELS_LAST, DOMAINS
from bfpga.errors import ModelError
from bfpga.formats.files import printable

#: Operators of channels last.
OPERATORS = ("Conv", "MaxPool", "BatchNormalization")


def with_imports(model: ModelProto) -> ModelProto:
    """The model with an import of each QONNX domain that its operators use; itself if none is missing."""
    used = {node.domain for node in all_nodes(model)}
    known = {item.domain for item in model.opset_import}
    missing = [domain for domain in (*DOMAINS, CHANNELS_LAST) if domain in used - known]
    if not missing:
        return model
    result = copied(model)
    result.opset_import.extend(helper.make_opsetid(domain, 1) for domain in missing)
    return result


def in_standard_layout(model: ModelProto, path: str | Path) -> ModelProto:
    """The model whose operators of channels last are between Transposes; itself if it has none.

    ModelError for other operators of that domain, and for those whose attributes do not say how many axes they have.
    """
    if not any(node.domain == CHANNELS_LAST for node in model.graph.node):
        return model
    result = copied(model)
    nodes: list[NodeProto] = []
    for node in result.graph.node:
        nodes += _between_transposes(node, path) if node.domain == CHANNELS_LAST else [node]
    replace_nodes(result, nodes)
    del result.graph.value_info[:]
    kept = [item for item in result.opset_import if item.domain != CHANNELS_LAST]
    del result.opset_import[:]
    result.opset_import.extend(kept)
    return result


def _between_transposes(node: NodeProto, path: str | Path) -> list[NodeProto]:
    name = printable(node.name) or node.op_type
    if node.op_type not in OPERATORS:
        raise ModelError(
            f"{path}: operator {name} ({node.op_type}) of domain {CHANNELS_LAST} is unknown; known are "
            f"{', '.join(OPERATORS)}"
        )
    axes = len(attributes_of(node).get("kernel_shape", (0, 0)))  # a normalization does not say; images have two
    last = axes + 1
    first, value = f"{node.input[0]}/before_{node.output[0]}", f"{node.output[0]}/channels_second"
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.domain = ""
    copy.input[0], copy.output[0] = first, value
    to_first, to_last = [0, last, *range(1, last)], [0, *range(2, last + 1), 1]
    nodes = []
    if node.op_type == "Conv":
        copy.input[1] = f"{node.output[0]}/weights"
        weights = [node.input[1]], [copy.input[1]]
        nodes.append(helper.make_node("Transpose", *weights, name=f"{name}/weights", perm=to_first))
    return [
        *nodes,
        helper.make_node("Transpose", [node.input[0]], [first], name=f"{name}/channels_first", perm=to_first),
        copy,
        helper.make_node("Transpose", [value], [node.output[0]], name=f"{name}/channels_last", perm=to_last),
    ]
