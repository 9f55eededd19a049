"""One network on two groups of kernels: one finds the exponents on a sample, the other follows with everything.

FP 3.7, embodiments 6 to 9. The preceding side takes its items of a batch through all layers by itself; each layer's
position goes through a bounded queue to the main side, which computes all items at the exponents it is given, or
converts the accumulators of the preceding side's items, which have come before the position, and computes the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle

import numpy as np

from bfpga.contract.descriptor import LeadRule
from bfpga.contract.program import ArrayNode, BlockTensor, Program
from bfpga.devices.layer_kernels import LayerMachine, LayerRun
from bfpga.devices.values import HostArray
from bfpga.engines.positions.closure import batch_sample
from bfpga.engines.positions.fifo import PositionEntry, PositionFifo
from bfpga.engines.positions.pipeline import StageTimes
from bfpga.engines.positions.pipeline_events import PipelineRun, Side, simulate
from bfpga.engines.positions.pipeline_run import Turn
from bfpga.engines.positions.sampling import SampleFraction, Sampling
from bfpga.engines.positions.transfer import Bytes, pack_wide, unpack_wide
from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.arrays import IntArray
from bfpga.formats.block_float import encode_samples
from bfpga.program.layout import apart, onnx_shape, to_array, together
from bfpga.program.moved_accumulators import moved_rows

#: Fields of a layer that both sides must share; the rest is its place and schedule.
_SHARED = (
    "name", "kind", "inputs", "output", "channels", "weights", "weight_exponents", "bias", "bias_exponent", "function",
    "function_argument", "function_exponent", "function_first", "negate_second",
)  # fmt: skip
_SIDES: tuple[Side, ...] = ("preceding", "main")
#: Numbers of a format and of its arithmetic that decide about bits.
_ARITHMETIC = ("format", "bias_bits")


@dataclass(frozen=True)
class BatchRun:
    """A batch on both sides: exponents of the layers, clocks of each side's slowest kernel for every layer, bytes of
    accumulators that went from one side to the other."""

    exponents: tuple[int, ...]
    preceding_clocks: tuple[int, ...]
    main_clocks: tuple[int, ...]
    moved_bytes: tuple[int, ...]


@dataclass(frozen=True)
class PairRun:
    """What a pair computed. outputs: (samples, ...) by name. largest_ahead: the fullest queue of positions."""

    layers: tuple[str, ...]
    outputs: dict[str, HostArray]
    batches: tuple[BatchRun, ...]
    preceding_mhz: float
    main_mhz: float
    depth: int
    largest_ahead: int

    def times(self, batch: int = 0) -> StageTimes:
        """Microseconds of every layer on both sides."""
        run = self.batches[batch]
        return StageTimes(
            tuple(clocks / self.preceding_mhz for clocks in run.preceding_clocks),
            tuple(clocks / self.main_mhz for clocks in run.main_clocks),
        )

    def timeline(self, batch: int = 0) -> PipelineRun:
        """A batch event by event, in microseconds, with the queue as deep as it was. FP R41, R42."""
        return simulate(self.times(batch), [-e for e in self.batches[batch].exponents], self.depth)


class PositionPair:
    """A preceding and a main group of kernels with the same network; ``run`` takes any number of samples. FP R37, R38.

    sampling: items of a batch that precede (axis B, FP R46). depth: layers that the preceding side may be ahead (FP
    R42). Several preceding kernels share the sample; the largest of their exponents is the merged one, which needs the
    rule `lead` (FP R45). once: the main side computes the items that are not sampled, and the narrow results that the
    preceding side has of its items anyway are the others. Where both sides' programs have accumulators in the host's
    memory, the main side converts those of the sample (FP R39, R40, R44). ConfigurationError, one for all that does not
    fit.
    """

    def __init__(
        self,
        preceding: Sequence[LayerMachine],
        main: Sequence[LayerMachine],
        sampling: Sampling | None = None,
        depth: int = 2,
        once: bool = False,
    ) -> None:
        self.preceding, self.main, self.depth = list(preceding), list(main), depth
        PositionFifo(depth)  # an impossible depth is found before anything runs
        self._check_groups()
        self.once = once
        self.items = sum(_items(machine.program) for machine in (self.preceding if once else []) + self.main)
        self.sample = batch_sample(sampling or Sampling.along("B", SampleFraction()), self.items)
        #: Rows of each layer that a main kernel gets the accumulators of.
        self.given = [moved_rows(machine.program) for machine in self.main]
        #: Items of the main side in the order of its rows.
        self.followed = self._followed()
        problems = self._problems()
        if problems:
            raise ConfigurationError("the two sides do not fit together:\n" + "\n".join(f"  {p}" for p in problems))
        (self._input,) = self.main[0].program.inputs
        self.layers = tuple(node.name for node in _layers(self.main[0].program))

    def run(self, x: HostArray, turn: Turn | None = None) -> PairRun:
        """Run samples (N, K); the last batch is filled with its last sample. turn: which side moves next.

        DataError if the samples do not fit; DeviceError if a kernel fails.
        """
        width = self.main[0].program.tensors[self._input].channels
        values = np.asarray(x)
        if values.ndim != 2 or values.shape[1] != width or not len(values):
            raise DataError(f"samples have shape {values.shape}; (samples, {width}) is needed, one sample at least")
        turn = turn or cycle(_SIDES).__next__
        batches: list[BatchRun] = []
        results: list[dict[str, HostArray]] = []
        ahead = 0
        for batch in together(values.astype(np.float32), self.items):
            state = _Batch(PositionFifo(self.depth))
            results.append(self._run_batch(batch, turn, state))
            lists = (state.exponents, state.preceding, state.main, state.moved)
            batches.append(BatchRun(*map(tuple, lists)))
            ahead = max(ahead, state.fifo.largest_fill)
        outputs = {name: apart(np.stack([part[name] for part in results]), len(values)) for name in results[0]}
        clocks = (self.preceding[0].program.clock_mhz, self.main[0].program.clock_mhz)
        return PairRun(self.layers, outputs, tuple(batches), *clocks, self.depth, ahead)

    def close(self) -> None:
        """Release all kernels."""
        for machine in (*self.preceding, *self.main):
            machine.close()

    # One batch

    def _run_batch(self, x: HostArray, turn: Turn, state: _Batch) -> dict[str, HostArray]:
        """Both sides in turns; outputs (items, ...)."""
        form = self.main[0].program.config.format
        # One exponent for the input of both sides: that of the whole batch, which the host has.
        mantissa, exponent = encode_samples(x[None], form)
        self._begin(self.preceding, mantissa[0][self.sample], exponent)
        self._begin(self.main, mantissa[0][self.followed], exponent)
        sides: dict[Side, Iterator[None]] = {"preceding": self._precede(state), "main": self._follow(state)}
        while len(state.main) < len(self.layers):
            next(sides[turn()], None)
        return self._outputs()

    def _followed(self) -> IntArray:
        """What the main side computes; on every kernel those items last whose accumulators come."""
        everything = np.arange(self.items)
        rest = np.setdiff1d(everything, self.sample)
        given = [max(rows) for rows in self.given]
        if self.once or not any(given):
            return rest if self.once else everything
        own = [_items(machine.program) - count for machine, count in zip(self.main, given, strict=True)]
        parts = zip(_split(rest, own), _split(self.sample, given), strict=True)
        return np.concatenate([part for pair in parts for part in pair])

    def _outputs(self) -> dict[str, HostArray]:
        """Outputs (items, ...) in the order of the items."""
        order, machines = self.followed, list(self.main)
        if self.once:
            order, machines = np.concatenate([self.followed, self.sample]), [*self.main, *self.preceding]
        found = [machine.outputs() for machine in machines]
        return {name: np.concatenate([_rows(part[name]) for part in found])[np.argsort(order)] for name in found[0]}

    def _begin(self, machines: Sequence[LayerMachine], mantissa: IntArray, exponent: IntArray) -> None:
        """Every machine gets its rows."""
        first = 0
        for machine in machines:
            spec, last = machine.program.tensors[self._input], first + _items(machine.program)
            rows = mantissa[first:last].reshape(1, *onnx_shape(spec))
            machine.begin({self._input: BlockTensor(to_array(rows, spec), exponent)})
            first = last

    def _precede(self, state: _Batch) -> Iterator[None]:
        """Statistics, exponent and narrow results of the sample, layer by layer. FP R41, R45, R47."""
        for layer in range(len(self.layers)):
            exponent, clocks = self._find(layer)
            state.preceding.append(clocks)
            if self.given[0][layer]:  # before the position, so that they are there when it comes
                state.wide.append(self._wide(layer))
            entry = PositionEntry(layer, -exponent)
            while not state.fifo.push(entry):
                yield
            yield

    def _find(self, layer: int) -> tuple[int, int]:
        """The exponent that all preceding kernels narrow with, and the clocks of the slowest one.

        A kernel that found a smaller one by its own part narrows that part again.
        """
        found = [machine.run(layer) for machine in self.preceding]
        merged = max(run.exponent for run in found)
        again = [
            machine.run(layer, merged)
            for machine, run in zip(self.preceding, found, strict=True)
            if run.exponent != merged
        ]
        return merged, _slowest(found) + _slowest(again)

    def _wide(self, layer: int) -> tuple[Bytes, tuple[int, ...]]:
        """Accumulators of the sample on their way, with their shape. FP R43."""
        wide = np.concatenate([machine.accumulators(layer) for machine in self.preceding])
        return pack_wide(wide), wide.shape

    def _take(self, layer: int, state: _Batch) -> None:
        """Give what has come of a layer to the main kernels, each its items."""
        given = [rows[layer] for rows in self.given]
        if not any(given):
            state.moved.append(0)
            return
        packed, shape = state.wide.popleft()
        state.moved.append(packed.size)
        wide, first = unpack_wide(packed).reshape(shape), 0
        for machine, rows in zip(self.main, given, strict=True):
            machine.give(layer, wide[first : first + rows])
            first += rows

    def _follow(self, state: _Batch) -> Iterator[None]:
        """Narrow results of all items at the exponents that come; it waits while there is none. FP R37-R40, R42."""
        for layer in range(len(self.layers)):
            while (entry := state.fifo.pop(layer)) is None:
                yield
            state.exponents.append(-entry.position)
            self._take(layer, state)
            state.main.append(_slowest([machine.run(layer, -entry.position) for machine in self.main]))
            yield

    # Checks

    def _check_groups(self) -> None:
        for side, machines in (("preceding", self.preceding), ("main", self.main)):
            if not machines:
                raise ConfigurationError(f"the {side} side has no kernel; one at least is needed")

    def _problems(self) -> list[str]:
        """Everything that keeps these kernels from computing the same bits."""
        first = self.main[0].program
        problems: list[str] = []
        arithmetic = _ARITHMETIC + (("accumulator_bits",) if any(map(any, self.given)) else ())
        for program in [machine.program for machine in (*self.main[1:], *self.preceding)]:
            problems += _differences(first, program, arithmetic)
        problems += self._moving_problems()
        if len(first.inputs) != 1:
            problems.append(f"the network has the inputs {', '.join(first.inputs)}; a pair takes one")
        given = sum(_items(machine.program) for machine in self.preceding)
        if given != len(self.sample):
            problems.append(
                f"{len(self.sample)} of {self.items} items are sampled, but the preceding side's programs take {given}"
            )
        if len(self.preceding) > 1:
            ruled = [node for node in _layers(self.preceding[0].program) if node.policy.rule != LeadRule.LEAD]
            problems += [
                f"layer {node.name}: rule {node.policy.rule.name.lower()} on several preceding kernels needs their "
                "histograms merged, and a kernel takes none in; choose rule lead, or one kernel"
                for node in ruled
            ]
        return problems

    def _moving_problems(self) -> list[str]:
        """What keeps accumulators from being moved."""
        taken = [sum(rows) for rows in zip(*self.given, strict=True)]
        kept = [sum(rows) for rows in zip(*(moved_rows(machine.program) for machine in self.preceding), strict=True)]
        names = [node.name for node in _layers(self.main[0].program)]
        problems = [
            f"layer {name}: the main side takes accumulators of {rows} items, the preceding side keeps those of {found}"
            for name, rows, found in zip(names, taken, kept, strict=False)
            if rows not in (0, found)
        ]
        if self.once and any(taken):
            problems.append("once leaves the sampled items to the preceding side, so their accumulators do not move")
        return problems


@dataclass
class _Batch:
    """A batch on its way: the queue, accumulators in order, and what both sides have done."""

    fifo: PositionFifo
    exponents: list[int] = field(default_factory=list)
    preceding: list[int] = field(default_factory=list)
    main: list[int] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    wide: deque[tuple[Bytes, tuple[int, ...]]] = field(default_factory=deque)


def _split(values: IntArray, counts: Sequence[int]) -> list[IntArray]:
    """Parts of so many items each."""
    return np.split(values, np.cumsum(counts)[:-1])


def _slowest(runs: Sequence[LayerRun]) -> int:
    return max((run.clocks for run in runs), default=0)


def _items(program: Program) -> int:
    """Items of a batch that are one sample of a program: rows of its input."""
    return program.tensors[next(iter(program.inputs))].height


def _rows(output: HostArray) -> HostArray:
    """(1, items, ...) -> (items, ...); a program of one item has no such axis."""
    return output[0] if output.ndim > 2 else output


def _layers(program: Program) -> list[ArrayNode]:
    return [node for node in program.nodes if isinstance(node, ArrayNode)]


def _differences(first: Program, second: Program, arithmetic: Sequence[str]) -> list[str]:
    """Why two programs give other bits, for a reader; arithmetic: numbers of kernels that must be equal."""
    found = [
        f"{name} of {first.accelerator} is {getattr(first.config, name)}, of {second.accelerator} "
        f"{getattr(second.config, name)}; both sides need the same"
        for name in arithmetic
        if getattr(first.config, name) != getattr(second.config, name)
    ]
    ours, theirs = _layers(first), _layers(second)
    if len(ours) != len(theirs):
        return [*found, f"one side has {len(ours)} layers on its kernels, the other {len(theirs)}"]
    for a, b in zip(ours, theirs, strict=True):
        unequal = [name for name in _SHARED if not np.array_equal(getattr(a, name), getattr(b, name))]
        if unequal:
            found.append(f"layer {a.name} differs in {', '.join(unequal)}; compile both sides from the same network")
    return found
