"""Rearrangements: what Reshape, Transpose and their relatives do to positions."""

from __future__ import annotations

import numpy as np

from bfpga.compiler.lower.layers import IndexArray
from bfpga.compiler.read.importer import Operator


def view_index(operator: Operator, index: IndexArray, shape: tuple[int, ...] | None) -> IndexArray | None:
    """The positions of an operator's result, given those of its input (batch axis left out).

    None if the operator moves elements between samples, or if its output's shape is not known.
    """
    if operator.type == "Transpose":
        axes = [int(axis) for axis in operator.attributes.get("perm", range(index.ndim, -1, -1))]
        if not axes or axes[0] != 0:
            return None
        return np.ascontiguousarray(index.transpose([axis - 1 for axis in axes[1:]]))
    if shape is None or int(np.prod(shape)) != index.size:
        return None
    return index.reshape(shape)
