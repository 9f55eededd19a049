"""Any opset as one that the compiler supports, by ONNX's own version converter."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import ModelProto, version_converter

from bfpga.compiler.read.graphs import copied
from bfpga.errors import ModelError
from bfpga.formats.files import first_line

#: Opsets whose operators the compiler supports; files of these stay as they are.
OPSETS = (11, 21)
#: The format of files of the newest of them. Exporters write that of their onnx, which ONNX Runtime may refuse unread.
NEWEST_FORMAT = 10
#: The newest release of onnx that was tried, which pyproject.toml allows, and its opset.
NEWEST_ONNX, NEWEST_OPSET = "1.23.2", 28
#: The opset that brought attention, which ONNX Runtime has since 1.23. Newer files with it become this one.
ATTENTION_OPSET, ATTENTION_INPUTS, ATTENTION_OUTPUTS = 23, 6, 3
#: What older files become: from here on a Softmax has one axis, and quantizers have one scale a channel.
OLDER_BECOMES = 13
#: The converter reads no weights that are not among the inputs in files of an earlier format than this.
FREE_WEIGHTS = 4
STANDARD = ("", "ai.onnx")


def opset_of(model: ModelProto) -> int:
    """Opset of the standard operators."""
    return max((item.version for item in model.opset_import if item.domain in STANDARD), default=0)


def check_opset(model: ModelProto, path: str | Path) -> None:
    """ModelError for an opset that the installed ``onnx`` does not know."""
    opset, newest = opset_of(model), onnx.defs.onnx_opset_version()
    if not 1 <= opset <= newest:
        install = f"install onnx {NEWEST_ONNX}, or " if newest < opset <= NEWEST_OPSET else ""
        raise ModelError(
            f"{path}: opset {opset} is unknown to the installed onnx {onnx.__version__}, which supports 1 to {newest}: "
            f"{install}export the network with an opset from {OPSETS[0]} to {OPSETS[1]}"
        )


def supported_opset(model: ModelProto, path: str | Path) -> ModelProto:
    """The model, whose format becomes one that every ONNX Runtime supports, in an opset that the compiler supports.

    ModelError for old operators that the converter cannot convert. New operators without an older form stay, in their
    own opset, or in that of attention: the host computes them.
    """
    opset = opset_of(model)
    model.ir_version = min(model.ir_version, NEWEST_FORMAT)
    if OPSETS[0] <= opset <= OPSETS[1]:
        return model
    copy = copied(model)
    copy.ir_version = max(copy.ir_version, FREE_WEIGHTS)
    target = OLDER_BECOMES if opset < OPSETS[0] else OPSETS[1]
    try:
        return _converted(copy, target)
    except Exception as error:
        if opset <= OPSETS[1]:
            raise ModelError(
                f"{path}: opset {opset} cannot be converted to {target}: {first_line(error)}; export the network with "
                f"an opset from {OPSETS[0]} to {OPSETS[1]}"
            ) from None
    return _with_attention(copy) if opset > ATTENTION_OPSET else model


def _converted(model: ModelProto, target: int) -> ModelProto:
    converted: ModelProto = version_converter.convert_version(model, target)
    return converted


def _with_attention(model: ModelProto) -> ModelProto:
    """The model in the opset that brought attention, if all of its operators have a form there."""
    for node in model.graph.node:  # the converter does not look at what only newer ones have, or have otherwise
        more = len(node.input) > ATTENTION_INPUTS or len(node.output) > ATTENTION_OUTPUTS
        if node.op_type == "Attention" and more:
            return model
    try:
        return _converted(model, ATTENTION_OPSET)
    except Exception:
        return model
