"""Operations compiled, and kept: by their shapes the schedule, by their weights what the kernel is sent.

The compiler of whole networks does the work, for a network of one layer (`network.quantize`, `network.schedule`).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Generic, TypeVar

from bfpga.compiler.numbers.policies import PolicyChoice
from bfpga.compiler.numbers.quantize import quantize_layer
from bfpga.compiler.numbers.weight_formats import choose_format
from bfpga.compiler.options import CompileOptions
from bfpga.compiler.schedule.measuring import histogram_base
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import ArrayNode, TensorSpec
from bfpga.dynamic_graph.call_schedule import CallSchedule, CompiledCall, schedule_call
from bfpga.dynamic_graph.calls import RESULT, ArrayCall, image_shape, operand_names
from bfpga.errors import BfpgaError, ModelError

#: Schedules that are kept: those of a step of a large network.
KEPT_SCHEDULES = 1024
#: Weights of all operations that are kept. Packed, and in the emulator's number type, each takes some bytes.
KEPT_WEIGHTS = 1 << 24

Item = TypeVar("Item")


class Recent(Generic[Item]):
    """The items that were used last, by key: as many as ``limit`` holds, by what each of them costs; one at least."""

    def __init__(self, limit: int, cost: Callable[[Item], int] = lambda item: 1) -> None:
        self.limit = limit
        self.cost = cost
        self.total = 0
        self._items: OrderedDict[Hashable, Item] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Item]) -> tuple[Item, bool]:
        """The item of a key, made if it is not there; whether it was."""
        if key in self._items:
            self._items.move_to_end(key)
            return self._items[key], True
        item = self._items[key] = make()
        self.total += self.cost(item)
        while self.total > self.limit and len(self._items) > 1:
            self.total -= self.cost(self._items.popitem(last=False)[1])
        return item, False


class CallCompiler:
    """Compiles operations for one array; what it has already is not compiled again."""

    def __init__(self, config: KernelConfig, options: CompileOptions, least_sample: int = 0) -> None:
        """options: of every operation. least_sample: values that a sample has at least; else everything is measured."""
        self.config = config
        self.options = options
        self.least_sample = least_sample
        self._schedules: Recent[CallSchedule] = Recent(KEPT_SCHEDULES)
        self.calls: Recent[CompiledCall] = Recent(KEPT_WEIGHTS, _weights)
        self.scheduled = 0

    def compile(self, call: ArrayCall, exact: bool = False, sample: int | None = None) -> CompiledCall:
        """Quantize and schedule one operation; its exponent is found by what precedes it (FP R16, R17).

        exact: weights are mantissas of a block, and no format but integers will do. sample: every how manieth row is
        measured, if not as the options say. ``scheduled`` counts operations whose shapes or samples are new.
        ModelError with the operation and its shapes if the array's memories cannot hold even a part of it.
        """
        try:
            period = sample or self.options.sample
            return self.calls.get((*call.key, exact, period), lambda: self._made(call, exact, period))[0]
        except BfpgaError as error:
            shapes = " and ".join(str(block.mantissa.shape) for block in call.operands)
            raise ModelError(
                f"{call.layer.name}: cannot be computed on this accelerator, operands (height, width, channels) "
                f"{shapes}, result {call.inner}: {error}"
            ) from None

    def _made(self, call: ArrayCall, exact: bool, period: int) -> CompiledCall:
        node = self._node(call, exact, period)
        node.policy.sample_offset = self.scheduled  # of an operation that is new: samples begin a row later (FP R30)
        key: tuple[Hashable, ...] = (*call.geometry, node.weight_format, period)
        if self.config.array.zeros == "weights":  # how many entries there are, weights decide
            key = (*key, call.digest, exact)
        schedule, known = self._schedules.get(key, lambda: schedule_call(node, _tensors(call), self.config))
        self.scheduled += not known
        return schedule.bind(node)

    def _node(self, call: ArrayCall, exact: bool, period: int) -> ArrayNode:
        layer, config = call.layer, self.config
        options = replace(self.options, sample=period)
        options = replace(options, formats="linear") if exact else options
        policy = PolicyChoice(config, options, {}, [layer]).of(layer)
        if math.prod(call.inner) < self.least_sample * options.sample:
            policy.flow = "two_pass"
        choice = choose_format(layer, config, options, options.weights)
        node, _ = quantize_layer(layer, config, policy, None, options.weights, choice.weight_format)
        node.policy.base = histogram_base(node, config)
        return node


def _weights(call: CompiledCall) -> int:
    """Weights of an operation; one without any costs as much as a few."""
    return 1024 if call.node.weights is None else max(1024, call.node.weights.size)


def _tensors(call: ArrayCall) -> dict[str, TensorSpec]:
    names = operand_names(len(call.operands))
    images = [image_shape(block) for block in call.operands]
    tensors = {name: TensorSpec(name, *shape) for name, shape in zip(names, images, strict=True)}
    return tensors | {RESULT: TensorSpec(RESULT, *call.inner)}
