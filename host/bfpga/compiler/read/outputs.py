"""Outputs that are no numbers, and labels that a classifier gives with its scores; outputs that the user chooses.

The user may choose any value that the network computes; what only others need is left out. Who wants the class alone
needs no Softmax: the largest score is the same before it.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from bfpga.compiler.read.graphs import copied, replace_outputs
from bfpga.compiler.read.shapes import inferred_types
from bfpga.compiler.read.simplify import without_unused
from bfpga.errors import ModelError
from bfpga.program.host import MONOTONE, SHAPES

#: The domain of scikit-learn's operators, those of it that look up a label, and what may follow these.
LEARNED = "ai.onnx.ml"
LOOKUPS = frozenset({"ArrayFeatureExtractor", "LabelEncoder"})
MOVES = frozenset({"Cast", "Identity", "Reshape", "Squeeze"})
#: In the place of outputs: scores whose largest is the class.
CLASS = "class"
#: Values with almost the name that is asked for, in a message.
CLOSE = 3


def with_outputs(model: ModelProto, names: Sequence[str] | None, path: str | Path) -> tuple[ModelProto, list[str]]:
    """The model with the outputs ``names`` only, and notes; None: all but text and labels that accompany scores.

    names: outputs of the file, or other values that it computes, whose types ``with_known_types`` finds. A ZipMap
    becomes the scores that it pairs with labels. `class` among the names, unless a value is called so: no final
    Softmax, LogSoftmax or Sigmoid, whose largest result is that of its input. ModelError for a value that nothing
    computes, and for text.
    """
    computed = dict.fromkeys(name for node in model.graph.node for name in node.output if name)
    if names and CLASS in names and CLASS not in computed:
        rest, notes = with_outputs(model, [name for name in names if name != CLASS] or None, path)
        scores, more = _with_scores(rest)
        return scores, notes + more
    given = [value.name for value in model.graph.output]
    for name in names or ():
        if name not in computed and name not in given:
            raise ModelError(f"{path}: {_nothing_called(name, given, computed)}")
    zipped = [node for node in model.graph.node if _is_learned(node, ("ZipMap",)) and node.output[0] in given]
    labels = {} if names else _labels(model)
    if not zipped and not labels and not names:
        return model, []
    result, notes = copied(model), []
    for node in zipped:
        notes.append(f"output {node.output[0]} is the scores that ZipMap {node.name} pairs with labels, in their order")
        _without_map(result, node)
    for name, what in labels.items():
        notes.append(f"output {name} is left out: {what}")
    known = {value.name: value for value in (*result.graph.value_info, *result.graph.output)}
    chosen = dict.fromkeys(names or [name for name in given if name not in labels])
    kept = [known.get(name) or _of_unknown_type(name) for name in chosen]
    _refuse_text(kept, path)
    replace_outputs(result, kept)
    return without_unused(result), notes


def _nothing_called(name: str, outputs: Sequence[str], computed: Collection[str]) -> str:
    """What a message says of a name that nothing computes."""
    near = [f"{one!r}" for one in difflib.get_close_matches(name, computed, n=CLOSE) if one not in outputs]
    also = f"; called almost so are {', '.join(near)}" if near else ""
    return f"there is no value {name!r} to choose; outputs are {', '.join(outputs)}; or {CLASS}{also}"


def _of_unknown_type(name: str) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None)


def _refuse_text(values: Iterable[ValueInfoProto], path: str | Path) -> None:
    for value in values:
        if value.type.tensor_type.elem_type == TensorProto.STRING:
            raise ModelError(f"{path}: output {value.name} is text; choose another one with --outputs")


def with_known_types(model: ModelProto, path: str | Path) -> ModelProto:
    """The model whose outputs have types; changes it. Inference knows those of all operators but quantizers' floats.

    ModelError for text.
    """
    unknown = [value for value in model.graph.output if value.type.tensor_type.elem_type == TensorProto.UNDEFINED]
    types = inferred_types(model) if unknown else {}
    for value in unknown:
        value.type.tensor_type.elem_type = types.get(value.name) or TensorProto.FLOAT
    _refuse_text(unknown, path)
    return model


def _is_learned(node: NodeProto, kinds: Collection[str]) -> bool:
    return str(node.domain) == LEARNED and node.op_type in kinds


def _labels(model: ModelProto) -> dict[str, str]:
    """Outputs that are text or labels, with what they are; none if there are no others."""
    producers = {name: node for node in model.graph.node for name in node.output}
    found = {}
    for value in model.graph.output:
        node = producers.get(value.name)
        while node is not None and node.op_type in MOVES:
            node = producers.get(node.input[0])
        if value.type.tensor_type.elem_type == TensorProto.STRING:
            found[value.name] = "it is text"
        elif node is not None and _is_learned(node, LOOKUPS):
            found[value.name] = f"it is the label of the largest score; --outputs {value.name} takes it"
    return found if len(found) < len(model.graph.output) else {}


def _with_scores(model: ModelProto) -> tuple[ModelProto, list[str]]:
    """The model without operators at its outputs that leave the largest value where it is, and notes."""
    producers = {name: node for node in model.graph.node for name in node.output}
    kept, notes = {}, []
    for value in model.graph.output:
        name, last = _scores(value.name, producers)
        if last is None:
            kept[value.name] = value
            notes.append(f"output {value.name} stays as it is: it ends with no {', '.join(sorted(MONOTONE))}")
            continue
        kept[name] = helper.make_tensor_value_info(name, value.type.tensor_type.elem_type, None)
        limit = "; 0.5 after it is 0 before it" if last.op_type == "Sigmoid" else ""
        notes.append(
            f"output {value.name} is {name}, the scores before {last.op_type} {last.name}".rstrip()
            + f": the largest is the same class{limit}"
        )
    result = copied(model)
    replace_outputs(result, kept.values())
    return without_unused(result), notes


def _scores(name: str, producers: Mapping[str, NodeProto]) -> tuple[str, NodeProto | None]:
    """What the operators at the end of ``name`` read that only shape it or keep its order, and the first of the latter.

    None where there is no such operator, or nothing is computed before it.
    """
    found, last = name, None
    while (node := producers.get(name)) is not None and not node.domain and node.output[0] == name:
        if node.op_type not in MONOTONE | SHAPES:
            break
        name = node.input[0]
        if node.op_type in MONOTONE and name in producers:
            found, last = name, node
    return found, last


def _without_map(model: ModelProto, node: NodeProto) -> None:
    """Replace the output of a ZipMap by its input; changes the model."""
    model.graph.node.remove(node)
    model.graph.node.append(helper.make_node("Identity", [node.input[0]], [node.output[0]], name=node.name))
    scores = helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)
    replace_outputs(model, [scores if value.name == scores.name else value for value in model.graph.output])
