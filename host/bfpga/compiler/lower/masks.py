"""Constant masks in front of a Softmax: which elements they take out of their rows.

A mask adds minus infinity, or a number far below all scores, to what a row must not see. The array has finite numbers
with one exponent for a tensor, and a number that is as low as one mantissa can be may not be low enough. So a mask is
added twice, which changes nothing of a Softmax. The layers only remember which elements are masked: the numbers that
stand for them are found where the range of the scores is known (``numbers/masks.py``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from bfpga.compiler.lower import placement as place
from bfpga.compiler.lower.batch_first import Rewriter
from bfpga.compiler.lower.layers import IndexArray, RowMask, positions
from bfpga.compiler.lower.row_layers import RowLayers
from bfpga.compiler.lower.state import NotOnArrayError
from bfpga.compiler.lower.views import view_index
from bfpga.compiler.read.importer import Graph, Operator
from bfpga.contract.configuration import KernelConfig
from bfpga.formats.arrays import Float64Array

#: How far below the largest number of its row a mask has to be: e**-64 is nothing, whatever the scores are.
BELOW = 64.0
#: Operators that masks are written with.
MASKING = ("Add", "Sub", "Where")


class Masks(RowLayers):
    """Sums of scores and a constant mask."""

    def _mask(
        self, operator: Operator, value: str, number: Float64Array
    ) -> tuple[Float64Array, RowMask] | None:
        """What a constant adds to scores (zero where it masks), and its mask, if a Softmax on the array reads the sum.

        None if it is no mask. Raises NotOnArrayError for a mask that the array cannot have.
        """
        if not number.size or number.min() > -BELOW:
            return None
        shape = self.graph.shapes.get(value, ())
        if self.graph.shapes.get(operator.outputs[0]) != shape or number.ndim > len(shape) + 1:
            raise NotOnArrayError("its constant changes the shape")
        added = self._of_sample(number, shape)
        before = self.tensors.get(self._view(value).root)
        mask = before.mask if before is not None else None
        if mask is None:
            after = self._rows_after(operator)
            mask = None if after is None else _row_mask(added, after[0])
            if after is None or mask is None:
                return None
            if after[1] < 2:
                raise NotOnArrayError("its mask is added once, and no number of the array is low enough for that")
        return np.where(mask.masked, 0.0, added), mask

    def _rows_after(self, operator: Operator) -> tuple[IndexArray, int] | None:
        """Positions in the result of a sum by the rows of the Softmax that alone reads it, and the number of sums.

        There may be a second sum between them. None if no Softmax alone reads it.
        """
        value, index, sums = operator.outputs[0], positions(self.graph.shapes[operator.outputs[0]]), 1
        while True:
            reader = self.graph.only_consumer(value)
            if reader is None:
                return None
            if reader.type == "Softmax":
                if reader.name not in self.chosen:
                    raise NotOnArrayError("it masks a Softmax of the host")
                (axis,) = self._row_axes(reader, index.ndim, whole=False)
                return np.moveaxis(index, axis, -1).reshape(-1, index.shape[axis]), sums
            if reader.type == "Add" and sums == 1:
                sums += 1
            else:
                moved = view_index(reader, index, self.graph.shapes.get(reader.outputs[0]))
                if reader.type not in place.VIEWS or moved is None:
                    return None
                index = moved
            value = reader.outputs[0]


def _row_mask(added: Float64Array, rows: IndexArray) -> RowMask | None:
    """The mask that is added to scores; None if it hides nothing. rows: positions in it."""
    numbers = added.reshape(-1)[rows]
    largest = numbers.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # nothing of a row is left
        hidden = numbers <= largest - BELOW
    if not hidden.any():
        return None
    if (largest <= -BELOW).any():
        raise NotOnArrayError("its mask leaves nothing of a row")
    masked = np.zeros(added.shape, bool)
    masked.reshape(-1)[rows[hidden]] = True
    nearest = np.where(hidden, numbers, -np.inf).max(axis=1, keepdims=True)
    return RowMask(masked, rows, float((largest - nearest).min()))


def may_mask(graph: Graph, operator: Operator) -> bool:
    """Whether an operator may be one that masks."""
    numbers = [graph.constants[name] for name in operator.inputs if name in graph.constants]
    return operator.type in MASKING and any((np.abs(item) >= BELOW).any() for item in numbers if item.dtype.kind == "f")


def masked_scores(rewriter: Rewriter, node: NodeProto, config: KernelConfig) -> bool:
    """Write the mask of a Softmax as two sums; False, and nothing written, where it is none."""
    found = _added(rewriter, node)
    if found is None or not config.has_rows or not _reaches_softmax(rewriter, node.output[0]):
        return False
    scores, mask = found
    again = np.where(mask <= -BELOW, mask, np.float32(0))
    first = rewriter.constant(mask)
    second = first if np.array_equal(mask, again) else rewriter.constant(again)
    rewriter.add("Add", rewriter.add("Add", scores, first), second, output=node.output[0])
    return True


def _added(rewriter: Rewriter, node: NodeProto) -> tuple[str, npt.NDArray[np.float32]] | None:
    """Scores, and what is added to them; a selection of a low number adds it, in front of a Softmax."""
    operands = node.input[1:] if node.op_type == "Where" else node.input
    numbers = [rewriter.constants.get(name) for name in operands]
    known = [index for index, number in enumerate(numbers) if number is not None]
    condition = rewriter.constants.get(node.input[0])
    if len(known) != 1 or (node.op_type == "Where" and condition is None):
        return None
    (place_of,) = known
    number, scores = np.asarray(numbers[place_of], np.float32), operands[1 - place_of]
    if node.op_type == "Where":
        number = np.where(np.asarray(condition, bool) == (place_of == 0), number, np.float32(0))
    elif node.op_type == "Sub" and place_of == 0:
        return None
    elif node.op_type == "Sub":
        number = -number
    same = rewriter.shapes.get(scores) == rewriter.shapes.get(node.output[0], ())
    return (scores, number) if same and number.size and number.min() <= -BELOW else None


def _reaches_softmax(rewriter: Rewriter, value: str) -> bool:
    """Whether a Softmax, rearrangements aside, alone reads a value."""
    given = {output.name for output in rewriter.model.graph.output}
    while value not in given:
        readers = [node for node in rewriter.model.graph.node if value in node.input]
        if len(readers) != 1 or readers[0].op_type not in (*place.VIEWS, "Softmax"):
            return False
        if readers[0].op_type == "Softmax":
            return True
        value = readers[0].output[0]
    return False
