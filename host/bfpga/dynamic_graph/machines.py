"""What computes operations: the emulator, or a kernel (C simulation, virtual board, board) that stays open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import BlockTensor, KernelOperation
from bfpga.devices.kernel_device import Kernel
from bfpga.devices.told_statistics import cut_behind, ends_of_passes, read_histogram
from bfpga.dynamic_graph.blocks import ArrayBlock
from bfpga.dynamic_graph.call_schedule import CompiledCall
from bfpga.dynamic_graph.calls import RESULT, operand_names
from bfpga.engines.kernel.accumulators import Block
from bfpga.engines.kernel.arithmetic import COUNTER_MASK, LayerCounters, LayerEngine
from bfpga.engines.output.exponents import PolicyRegisters
from bfpga.formats.arrays import IntArray
from bfpga.formats.block_float import mantissa_dtype


@dataclass
class Outcome:
    """A result (height, width, channels), and what was counted while it was computed."""

    block: ArrayBlock
    cycles: int = 0
    counters: LayerCounters = field(default_factory=LayerCounters)


class Machine(Protocol):
    """One kernel, real or emulated, that computes one operation after another.

    It holds the resident weights of the operation that ran last; those of another one take their place.
    """

    def run(self, call: CompiledCall, operands: Sequence[ArrayBlock]) -> Outcome:
        """Compute an operation; resident weights that the one before left are not loaded again."""
        ...

    def close(self) -> None:
        """Release the kernel."""
        ...


class EmulatedMachine:
    """The emulator: an operation's node in numpy, clocks from the cycle model."""

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        self._loaded: CompiledCall | None = None
        self._registers = PolicyRegisters(config.policy_slots, config.format)
        self._engines: WeakKeyDictionary[CompiledCall, LayerEngine] = WeakKeyDictionary()

    def run(self, call: CompiledCall, operands: Sequence[ArrayBlock]) -> Outcome:
        """See ``Machine.run``."""
        if call not in self._engines:
            self._engines[call] = LayerEngine(call.node, self.config, self._registers)
        output, counters = self._engines[call].run([Block(*_single(operand)) for operand in operands])
        cycles = call.schedule.clocks + (0 if self._loaded is call else call.schedule.setup_clocks)
        self._loaded = call if call.takes_weights else self._loaded
        return Outcome(ArrayBlock(output.mantissa[0], int(output.exponent[0])), cycles, counters)

    def close(self) -> None:
        """Nothing is held open."""


class KernelMachine:
    """A kernel that is fed by streams; opened once for all operations.

    histograms: whether what its collector has counted is read behind each pass that a rule looks at (FP R49).
    """

    def __init__(self, config: KernelConfig, kernel: Kernel, histograms: bool = False) -> None:
        self.config = config
        self.kernel = kernel
        self.histograms = histograms
        self._loaded: CompiledCall | None = None

    def run(self, call: CompiledCall, operands: Sequence[ArrayBlock]) -> Outcome:
        """See ``Machine.run``; a DeviceError leaves a kernel that the next operation finds clean."""
        names = operand_names(len(operands))
        tensors = {name: BlockTensor(*_single(operand)) for name, operand in zip(names, operands, strict=True)}
        kind = mantissa_dtype(self.config.format.mantissa_bits)
        for name, spec in call.schedule.tensors.items():
            if name not in tensors:  # the result, and accumulators that are kept here
                empty = np.zeros((1, spec.height, spec.width, spec.channels), kind)
                tensors[name] = BlockTensor(empty, np.zeros(1, np.int32))
        result = tensors[RESULT]
        starts, loaded = list(call.starts), self._loaded
        if loaded is not call:
            starts[0] = [*call.setup, *starts[0]]
        self._loaded = None  # unknown, should a start fail
        outcome = Outcome(ArrayBlock(result.mantissa[0], 0))
        for start in starts:
            ends = ends_of_passes(start) if self.histograms else ()
            for part in cut_behind(start, ends):
                self._start(part, tensors, outcome)
                if id(part[-1]) in ends:
                    outcome.counters.add_histogram(read_histogram(self.kernel.run_operations, self.config))
        self._loaded = call if call.takes_weights else loaded
        outcome.block = ArrayBlock(result.mantissa[0], int(result.exponent[0]))
        return outcome

    def _start(
        self, operations: Sequence[KernelOperation], tensors: Mapping[str, BlockTensor], outcome: Outcome
    ) -> None:
        result, counters = self.kernel.run_operations(operations, tensors), outcome.counters
        outcome.cycles += result.cycles
        counters.overflows = (counters.overflows + result.overflow) & COUNTER_MASK
        counters.underflows = (counters.underflows + result.underflow) & COUNTER_MASK
        counters.status |= result.status

    def close(self) -> None:
        """Release the kernel."""
        self.kernel.close()


def _single(operand: ArrayBlock) -> tuple[IntArray, IntArray]:
    """Mantissas and exponents of a batch of one sample."""
    return operand.mantissa[np.newaxis], np.array([operand.exponent], np.int32)
