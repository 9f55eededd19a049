"""Operators of the host for many samples in one call, where a sample's bits do not depend on what is beside it.

A call of ONNX Runtime takes some ten microseconds whatever it computes; a small operator takes less for a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.program import HostNode
from bfpga.program.host import CALL_BYTES, keeps_apart

HostArray = npt.NDArray[Any]
HostFunction = Callable[[Mapping[str, HostArray]], dict[str, HostArray]]


def one_by_one(node: HostNode, function: HostFunction) -> HostFunction:
    """The function of a node for any number of samples, each computed by itself."""

    def run(values: Mapping[str, HostArray]) -> dict[str, HostArray]:
        count = _samples(node, values)
        return _joined(node, [function(_part(node, values, i, i + 1)) for i in range(count)])

    return run


def in_batches(node: HostNode, function: HostFunction) -> HostFunction:
    """The function of a node for any number of samples, many in a call where all its operators keep them separate.

    A network that was exported for a batch of one, or that mixes samples, may have such operators alone: calls of many
    samples are believed if the first one repeats, to the bit, what its first and last sample give by themselves.
    """
    alone = one_by_one(node, function)
    return _Batches(node, function, alone).run if keeps_apart(node) else alone


class _Batches:
    """A node's function for many samples, and for one."""

    def __init__(self, node: HostNode, function: HostFunction, alone: HostFunction) -> None:
        self.node, self.function, self.alone = node, function, alone
        self.believed: bool | None = None

    def run(self, values: Mapping[str, HostArray]) -> dict[str, HostArray]:
        count = _samples(self.node, values)
        each = sum(values[name][:1].nbytes for name in self.node.inputs)
        size = max(1, CALL_BYTES // max(each, 1))
        if self.believed is False or min(size, count) < 2:
            return self.alone(values)
        parts = []
        for start in range(0, count, size):
            part = _part(self.node, values, start, min(count, start + size))
            found = self._together(part)
            if found is None:
                singly = self.alone(values)  # raises for values that an operator does not take, however many there are
                self.believed = False
                return singly
            parts.append(found)
        return _joined(self.node, parts)

    def _together(self, values: Mapping[str, HostArray]) -> dict[str, HostArray] | None:
        """Results of one call; None where they are not those of samples that are computed by themselves."""
        count = _samples(self.node, values)
        try:
            found = self.function(values)
        except Exception:  # of a fixed batch; what a single sample raises too is raised there
            return None
        if any(found[name].shape[:1] != (count,) for name in self.node.outputs):
            return None
        if self.believed is None and count > 1:
            self.believed = all(self._repeats(values, found, index) for index in (0, count - 1))
        return found if self.believed is not False else None

    def _repeats(self, values: Mapping[str, HostArray], found: Mapping[str, HostArray], index: int) -> bool:
        single = self.alone(_part(self.node, values, index, index + 1))
        return all(single[name].tobytes() == found[name][index : index + 1].tobytes() for name in self.node.outputs)


def _samples(node: HostNode, values: Mapping[str, HostArray]) -> int:
    return max((len(values[name]) for name in node.inputs), default=1)


def _part(node: HostNode, values: Mapping[str, HostArray], first: int, last: int) -> dict[str, HostArray]:
    return {name: values[name][first:last] for name in node.inputs}


def _joined(node: HostNode, parts: Sequence[Mapping[str, HostArray]]) -> dict[str, HostArray]:
    if len(parts) == 1:
        return {name: parts[0][name] for name in node.outputs}
    return {name: np.concatenate([part[name] for part in parts]) for name in node.outputs}
