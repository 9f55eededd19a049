"""The reference of ``reference_array``, which tells what it uses of its memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reference_array import ReferenceKernel

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import BlockTensor, KernelOperation
from bfpga.engines.kernel.order import parameter_range, weight_range


class Recorded(dict[Any, Any]):
    """A memory that notes the addresses that were used."""

    def __init__(self, default: Any) -> None:
        super().__init__()
        self.default = default
        self.read: set[Any] = set()
        self.written: set[Any] = set()

    def __getitem__(self, key: Any) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def __missing__(self, key: Any) -> Any:
        return self.default

    def get(self, key: Any, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.written.add(key)
        super().__setitem__(key, value)

    def used(self) -> tuple[set[Any], set[Any]]:
        """What was read and written since the last call."""
        result = self.read, self.written
        self.read, self.written = set(), set()
        return result


class Watched(ReferenceKernel):
    """Fails where an operation uses words that it has not stated, and knows the exponents before every operation."""

    def __init__(self, config: KernelConfig) -> None:
        super().__init__(config)
        self.memory, self.weights = Recorded([0] * config.lanes), Recorded(None)
        self.parameters = Recorded((0, 0))
        self.before: list[dict[int, int]] = []

    def _execute(self, operation: KernelOperation, tensors: dict[str, BlockTensor], sample: int) -> int:
        self.before.append(dict(self.exponents))
        clocks = super()._execute(operation, tensors, sample)
        d, used = operation.descriptor, operation.memory
        read, written = self.memory.used()
        if d.operation != Operation.WEIGHTS:
            assert used is not None
            assert {word for _, word in read} <= inside(used.reads)
            assert {word for _, word in written} <= inside(used.writes)
        for memory, stated in ((self.weights, weight_range(d)), (self.parameters, parameter_range(d))):
            read, written = memory.used()
            assert read | written <= inside((stated,))
        return clocks


def inside(ranges: Sequence[tuple[int, int]]) -> set[int]:
    return {word for first, last in ranges for word in range(first, last)}
