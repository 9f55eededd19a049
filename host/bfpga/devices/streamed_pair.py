"""Cores of one overlay that run a batch at the same time: the first finds exponents on a sample, and tells the others.

FP 3.7, embodiments 6 and 7 (R37, R38, R41, R42, R46). Every core is started once for a batch; exponents go from core to
core through the overlay's streams, and the host does nothing between layers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol

import numpy as np

from bfpga.contract.program import Program, TensorSpec
from bfpga.devices.base import DeviceResult
from bfpga.devices.emulator import Emulator
from bfpga.devices.simulated_kernel import SimulatedKernel
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.devices.values import HostArray, Values
from bfpga.engines.positions.closure import batch_sample
from bfpga.engines.positions.sampling import Sampling
from bfpga.errors import ConfigurationError, DataError, DeviceError
from bfpga.formats.arrays import IntArray
from bfpga.formats.block_float import encode_samples
from bfpga.program.layout import channel_factors, encode_tensor
from bfpga.program.streamed_exponents import streamed, with_exponents


class StreamingCore(Protocol):
    """A core with its program, which runs a batch as one start; ``depth`` of them may be begun."""

    program: Program
    depth: int

    def begin(self, x: HostArray, exponent: int | None, other_cycles: int) -> int:
        """Begin samples (samples, ...), whose input has a common exponent unless that is None; see
        ``StreamingDevice.begin_batch``."""
        ...

    def finish(self) -> DeviceResult:
        """What the oldest start gave; DeviceError if it failed."""
        ...

    def close(self) -> None:
        """Release the core."""
        ...


class KernelCore:
    """A core that is a kernel: of a board, or simulated."""

    def __init__(self, device: StreamingDevice) -> None:
        self.program, self.device, self.depth = device.program, device, device.streaming.depth

    def begin(self, x: HostArray, exponent: int | None, other_cycles: int) -> int:
        """See ``StreamingCore``."""
        ((name, spec),) = _inputs(self.program)
        values = Values(self.program, {name: x})
        values.array[name] = encode_tensor(x, replace(spec, input_exponent=exponent), self.program.config.format)
        return self.device.begin_batch(values, other_cycles)

    def finish(self) -> DeviceResult:
        """See ``StreamingCore``."""
        return self.device.finish_batch()

    def close(self) -> None:
        """Release the kernel."""
        self.device.close()


class EmulatedCore:
    """An emulated core. told: the exponents of its layers, by policy slot; awaited: those of the core before."""

    depth = 1

    def __init__(self, program: Program) -> None:
        self.program = program
        self.told: dict[int, int] = {}
        self._results: deque[DeviceResult] = deque()
        self.awaited: Mapping[int, int] = {}

    def begin(self, x: HostArray, exponent: int | None, other_cycles: int) -> int:
        """See ``StreamingCore``."""
        ((name, spec),) = _inputs(self.program)
        known = with_exponents(self.program, self.awaited) if self.awaited else self.program
        given = replace(known, tensors={**known.tensors, name: replace(spec, input_exponent=exponent)})
        result = Emulator(given).run({name: x}, trace=True)
        self._results.append(result)
        found = {node.policy.slot: result.tensors[node.output].exponent for node in streamed(self.program)}
        self.told = {slot: int(exponents[0]) for slot, exponents in found.items()}
        return 0

    def finish(self) -> DeviceResult:
        """See ``StreamingCore``."""
        return self._results.popleft()

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True)
class StreamedRun:
    """What the cores computed. outputs: (samples, ...) by name. clocks: of each core, by batch, with those in which it
    waits; None where no counter measures them."""

    outputs: dict[str, HostArray]
    batches: int
    clocks: tuple[tuple[int, ...], ...] | None

    def begins_and_ends(self) -> list[list[tuple[int, int]]]:
        """Begin and end of every batch on each core, in clocks, where a core begins a batch as it ends the one before.

        DeviceError where no counter has measured them.
        """
        if self.clocks is None:
            raise DeviceError("the cores have no clock counter: use a board or the virtual board")
        ends = [list(accumulate(clocks)) for clocks in self.clocks]
        return [list(zip([0, *each[:-1]], each, strict=True)) for each in ends]


class StreamedPair:
    """Cores in the order in which exponents go; ``run`` takes any number of samples.

    sampling: items of a batch that precede (axis B, FP R46); all of them are one sample of the first core's program.
    once: the other cores leave those items to the first one (embodiment 7), else they compute all (6). The rest goes to
    the other cores in equal parts. ConfigurationError for what does not fit.
    """

    def __init__(
        self,
        cores: Sequence[StreamingCore],
        batch: int,
        sampling: Sampling,
        once: bool = True,
        together: Sequence[int] | None = None,
    ) -> None:
        """together: items of a batch that are one sample of each core's program; one, if None."""
        self.cores, self.batch = list(cores), batch
        self.together = list(together or [1] * len(self.cores))
        self.sample = batch_sample(sampling, batch)
        rest = np.setdiff1d(np.arange(batch), self.sample) if once else np.arange(batch)
        self.once = once
        #: Items of each core, in their order.
        self.items: list[IntArray] = [self.sample, *np.array_split(rest, max(1, len(self.cores) - 1))]
        for problem in self._problems():
            raise ConfigurationError(f"the cores do not fit together: {problem}")
        #: Cycles that a batch may take each core alone, as far as they are known.
        self._cycles = [0] * len(self.cores)
        self._failed = False

    def run(self, x: HostArray) -> StreamedRun:
        """Run samples (N, ...); the last batch is filled with its last sample.

        DataError if the samples do not fit; DeviceError if a core fails, or waits for an exponent that never comes: the
        cores have to be opened again then.
        """
        if self._failed:
            raise DeviceError("a core failed in the run before; open the cores again, which loads the overlay")
        values = self._checked(x)
        filled = -(-len(values) // self.batch) * self.batch
        values = np.concatenate([values, np.repeat(values[-1:], filled - len(values), axis=0)])
        results: list[list[DeviceResult]] = []
        begun, most = 0, min(core.depth for core in self.cores)
        try:
            for first in range(0, filled, self.batch):
                if begun - len(results) == most:
                    results.append([core.finish() for core in self.cores])
                self._begin_batch(values[first : first + self.batch])
                begun += 1
            while len(results) < begun:
                results.append([core.finish() for core in self.cores])
        except BaseException:
            self._failed = True
            raise
        outputs = {
            name: np.concatenate([self._ordered([result.outputs[name] for result in batch]) for batch in results])
            for name in results[0][0].outputs
        }
        return StreamedRun({name: part[: len(x)] for name, part in outputs.items()}, len(results), _clocks(results))

    def close(self) -> None:
        """Release all cores."""
        for core in self.cores:
            core.close()

    def _begin_batch(self, x: HostArray) -> None:
        """Every core is started once, the first one first; the others follow it as far as their words have come.

        The first core goes on with the next batch while the others compute this one, as far as its words have room.
        """
        exponent = self._exponent(x)
        for index, (core, items) in enumerate(zip(self.cores, self.items, strict=True)):
            if index:
                _hand_on(self.cores[index - 1], core)
            given = _as_samples(x[items], self.together[index])
            others = sum(self._cycles) - self._cycles[index]
            self._cycles[index] = core.begin(given, exponent, others)

    def _exponent(self, x: HostArray) -> int | None:
        """The exponent of the input of all cores: that of the whole batch, which the host has."""
        ((_, spec),) = _inputs(self.cores[0].program)
        if spec.input_exponent is not None:
            return spec.input_exponent
        scaled = x * channel_factors(spec) if spec.channel_shift else x
        return int(encode_samples(scaled[None], self.cores[0].program.config.format)[1][0])

    def _ordered(self, found: Sequence[HostArray]) -> HostArray:
        """Outputs of a batch in the order of its items."""
        parts = [
            part if count == 1 else part.reshape(-1, *part.shape[2:])
            for part, count in zip(found, self.together, strict=True)
        ]
        parts, items = (parts, self.items) if self.once else (parts[1:], self.items[1:])
        return np.concatenate(parts)[np.argsort(np.concatenate(items))]

    def _checked(self, x: HostArray) -> HostArray:
        values = np.asarray(x)
        ((name, _),) = _inputs(self.cores[0].program)
        wanted = self.cores[0].program.inputs[name]
        wanted = wanted if self.together[0] == 1 else wanted[1:]
        if values.shape[1:] != wanted or not len(values):
            shape = ", ".join(["samples", *map(str, wanted)])
            raise DataError(f"samples have shape {values.shape}; ({shape}) is needed, one sample at least")
        return values.astype(np.float32)

    def _problems(self) -> Iterator[str]:
        programs = [core.program for core in self.cores]
        if len(programs) < 2:
            yield "there is one core; two at least are needed"
            return
        if any(len(program.inputs) != 1 for program in programs):
            yield f"the network has the inputs {', '.join(programs[0].inputs)}; cores that stream exponents take one"
            return
        for index, (count, items) in enumerate(zip(self.together, self.items, strict=True)):
            if not len(items) or len(items) % count:
                yield f"core {index} has {len(items)} items of a batch, and its program takes {count} at once"
        if len(self.sample) != self.together[0]:
            yield (
                f"{len(self.sample)} items precede, and the first core's program takes {self.together[0]} at once: "
                "they have to be one sample, whose exponents are common"
            )
        slots = [[node.policy.slot for node in streamed(program)] for program in programs]
        if any(found != slots[0] for found in slots[1:]):
            yield "they stream the exponents of other layers; compile them from the same network"


def _hand_on(core: StreamingCore, after: StreamingCore) -> None:
    """Words of a core that has no stream to the next one: of a simulation of one core, or of an emulator."""
    if isinstance(core, EmulatedCore) and isinstance(after, EmulatedCore):
        after.awaited = core.told
    if isinstance(core, KernelCore) and isinstance(after, KernelCore):
        kernel, following = core.device.streaming, after.device.streaming
        if isinstance(kernel, SimulatedKernel) and isinstance(following, SimulatedKernel):
            following.awaited += kernel.told
            kernel.told.clear()


def _clocks(results: Sequence[Sequence[DeviceResult]]) -> tuple[tuple[int, ...], ...] | None:
    """By core and batch."""
    measured = [[result.measured for result in batch] for batch in results]
    counted = [[item.clocks for item in batch if item is not None] for batch in measured]
    if any(len(each) != len(batch) for each, batch in zip(counted, results, strict=True)):
        return None
    return tuple(zip(*counted, strict=True))


def _inputs(program: Program) -> list[tuple[str, TensorSpec]]:
    return [(name, program.tensors[name]) for name in program.inputs]


def _as_samples(x: HostArray, count: int) -> HostArray:
    """Items (items, ...) as samples of so many."""
    return x if count == 1 else x.reshape(-1, count, *x.shape[1:])
