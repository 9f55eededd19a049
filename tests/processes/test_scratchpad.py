"""processes/scratchpad.hpp against a memory of numpy: operands of random layers, where results land, what overlaps."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pytest
from array_programs import Place, Program
from cpp_units import library
from kernel_pairs import output_size
from reference_weights import weight_kind

from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.devices.csim import Integers
from bfpga.engines.array.cycles import operation_cycles
from bfpga.engines.array.shift_words import with_zero
from bfpga.formats.shift_format import ShiftFormat

Integer = npt.NDArray[np.int32]
_SMALL = SystolicConfig(kernel="processes", columns=3, rows=4, lanes=2, activation_words=1024, stream_bits=64)
#: The pads of tests/cpp/scratchpad.cpp: the same numbers.
PADS = (
    _SMALL,
    replace(_SMALL, columns=12, rows=8, lanes=4),
    replace(_SMALL, columns=6, shift=with_zero(ShiftFormat()), shift_columns=2),
    replace(_SMALL, columns=1, rows=2, lanes=1, stream_bits=32),
    replace(_SMALL, columns=5, multiplier="shift", shift=with_zero(ShiftFormat())),
)
BEATS = 30000
#: A mantissa that may have any value.
ANYTHING = 999


class _Start(ctypes.Structure):
    _fields_ = (
        ("operations", ctypes.c_int32),
        ("descriptor", ctypes.c_void_p),
        ("loads", ctypes.c_int32),
        ("load", ctypes.c_void_p),
        ("results", ctypes.c_int32),
        ("result", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("rarely", "seed", "capacity", "first_held", "operands_before")),
        *((name, ctypes.c_void_p) for name in ("operand", "vector", "stored", "finished")),
        ("counts", ctypes.c_int32 * 4),
        *((name, ctypes.c_int32) for name in ("most_stored", "work")),
        ("error", ctypes.c_char * 256),
    )


class ScheduleError(Exception):
    """What a scratchpad stops with."""


@dataclass
class Outcome:
    """What a scratchpad has sent, and (index, work) of the operations in the order of their ends."""

    operands: Integer
    vectors: Integer
    stored: Integer
    finished: list[tuple[int, int]]
    most_stored: int


@dataclass
class Model:
    """Executes operations one after the other on a memory; collects what streams bring and take."""

    config: SystolicConfig
    rng: np.random.Generator
    loads: list[Integer] = field(default_factory=list)
    results: list[Integer] = field(default_factory=list)
    operands: list[Integer] = field(default_factory=list)
    vectors: list[Integer] = field(default_factory=list)
    stored: list[Integer] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = self.config
        self.memory = np.zeros((config.banks, config.activation_words, config.lanes), np.int32)

    def _words(self, *shape: int) -> Integer:
        return self.rng.integers(-128, 128, (*shape, self.config.lanes)).astype(np.int32)

    def address(self, base: int, words: int, pixel: int, word: int) -> tuple[int, int]:
        """(bank, word) of a pixel's word; a tensor begins in bank 0."""
        row, bank = divmod(pixel, self.config.banks)
        return bank, base + row * words + word

    def transfer(self, place: Place, loads: bool) -> None:
        count, words = self.config.transfer_pixels, place.words(self.config)
        # Rows without a gap are still rows of their own: array_programs moves them so.
        for y, x0, word in itertools.product(range(place.height), range(0, place.width, count), range(words)):
            group = self._words(count) if loads else np.zeros((count, self.config.lanes), np.int32)
            for i in range(min(count, place.width - x0)):
                at = self.address(place.base, words, y * place.pitch + x0 + i, word)
                if loads:
                    self.memory[at] = group[i]
                else:
                    group[i] = self.memory[at]
            (self.loads if loads else self.stored).append(group)

    def compute(self, d: Descriptor, source: Place, target: Place, second: Place | None) -> None:
        config = self.config
        kind = weight_kind(d, config)
        pixels = np.arange(d.output_pixels)
        for first in range(0, d.output_pixels, kind.columns):
            group = pixels[first : first + kind.columns]
            self._read(d, group, source, second)
            if not d.flags & Flag.MEASURE:
                for word in range(-(-d.output_rows // config.lanes)):
                    self._write(group, target, word)

    def _read(self, d: Descriptor, group: npt.NDArray[np.int64], source: Place, second: Place | None) -> None:
        config, gemm = self.config, d.operation == Operation.GEMM
        blocks = d.blocks if gemm else -(-d.output_rows // config.lanes)
        words = d.channel_words if gemm else 1
        steps = list(itertools.product(range(d.kernel_height), range(d.kernel_width), range(words)))
        if d.flags & Flag.KEPT:
            return
        for block, (number, (ky, kx, word)), slot in itertools.product(
            range(blocks), enumerate(steps), range(d.read_slots)
        ):
            values = np.zeros((config.columns, config.lanes), np.int32)
            present, mine = np.zeros(config.columns, np.int32), np.zeros(config.columns, np.int32)
            for column, pixel in enumerate(group):
                oy, ox = divmod(int(pixel), d.output_width)
                if d.read_runs and oy - int(group[0]) // d.output_width != slot:
                    continue
                mine[column] = 1
                y, x = oy * d.stride_y - d.pad_top, ox * d.stride_x - d.pad_left
                place = source
                if second is None:
                    y, x = y + ky * d.dilation_y, x + kx * d.dilation_x
                    if not (0 <= y < source.height and 0 <= x < source.width):
                        continue
                elif kx == 1:
                    place = second
                present[column] = 1
                offset = block * (d.block_step if gemm else 1) + word
                values[column] = self._at(place, y * place.pitch + x, offset)
            flags = [slot == d.read_slots - 1]
            if gemm:
                flags += [number == 0, flags[0] and number == len(steps) - 1]
                self.operands.append(np.concatenate([flags, mine, values.ravel()]))
            else:
                self.vectors.append(np.concatenate([flags, mine, present, values.ravel()]))

    def _at(self, place: Place, pixel: int, word: int) -> Integer:
        words = place.words(self.config)
        if word >= words:  # the last block of a depthwise layer: what lies there reaches no result
            return np.full(self.config.lanes, ANYTHING, np.int32)
        return self.memory[self.address(place.base, words, pixel, word)]

    def _write(self, group: npt.NDArray[np.int64], target: Place, word: int) -> None:
        beat = self._words(self.config.columns)
        self.results.append(beat)
        for column, pixel in enumerate(group):
            y, x = divmod(int(pixel), target.width)
            self.memory[self.address(target.base, target.words(self.config), y * target.pitch + x, word)] = beat[column]


def run(
    pad: int,
    integers: Integers,
    program: Program,
    model: Model,
    rarely: int,
    hardware: bool = False,
    held: tuple[int, int] = (0, 0),
) -> Outcome:
    """One start of a scratchpad. held: results from the first number on come when so many operands have gone."""
    config = PADS[pad]
    width = config.columns * config.lanes
    descriptors = np.array([operation.descriptor.to_words() for operation in program.operations], np.int32)

    def flat(beats: list[Integer]) -> Integer:
        return np.ascontiguousarray(np.array(beats, np.int32).ravel())

    given = descriptors, flat(model.loads), flat(model.results)
    operands = np.zeros((BEATS, 3 + config.columns + width), np.int32)
    vectors = np.zeros((BEATS, 1 + 2 * config.columns + width), np.int32)
    stored = np.zeros((BEATS, config.transfer_pixels, config.lanes), np.int32)
    finished = np.zeros((len(descriptors), 2), np.int32)
    start = _Start(
        len(descriptors), given[0].ctypes.data, len(model.loads), given[1].ctypes.data, len(model.results),
        given[2].ctypes.data, rarely, 5, BEATS, *held,
        *(array.ctypes.data for array in (operands, vectors, stored, finished)),
    )  # fmt: skip
    assert library("scratchpad", integers).unit_scratchpad(pad, int(hardware), ctypes.byref(start)) == 0
    if start.error:
        raise ScheduleError(start.error.decode())
    counts = list(start.counts)
    assert operands[counts[0] - 1].ravel()[0] == -1, "the stop beat comes last"
    ends = [(int(index), int(work)) for index, work in finished[: counts[3]]]
    assert start.work == sum(work for _, work in ends)
    return Outcome(operands[: counts[0] - 1], vectors[: counts[1]], stored[: counts[2]], ends, start.most_stored)


def strict_order(program: Program) -> None:
    """Everything waits for everything before it."""
    done = {Operation.LOAD: 0, Operation.STORE: 0, Operation.GEMM: 0}
    for operation in program.operations:
        d = operation.descriptor
        d.after_loads, d.after_stores, d.after_results = (
            done[Operation.LOAD], done[Operation.STORE], done[Operation.GEMM]
        )  # fmt: skip
        kind = Operation(d.operation)
        done[kind if kind in done else Operation.GEMM] += 1


def check(outcome: Outcome, program: Program, model: Model) -> None:
    config = model.config
    for got, wanted, flags in ((outcome.operands, model.operands, 3), (outcome.vectors, model.vectors, 1)):
        expected = np.array(wanted, np.int32).reshape(-1, got.shape[1])
        assert len(got) == len(expected)
        np.testing.assert_array_equal(got[:, :flags], expected[:, :flags])
        mine = expected[:, flags : flags + config.columns] == 1
        assert (got[:, flags : flags + config.columns][mine] == 1).all()
        rest, other = got[:, flags + config.columns :], expected[:, flags + config.columns :]
        np.testing.assert_array_equal(np.where(other == ANYTHING, ANYTHING, rest), other)
    np.testing.assert_array_equal(outcome.stored, np.array(model.stored).reshape(outcome.stored.shape))
    works = [operation_cycles(config, operation.descriptor) for operation in program.operations]
    assert sorted(outcome.finished) == list(enumerate(works))


@dataclass
class Layers:
    """A random program and what it does."""

    program: Program
    model: Model

    @staticmethod
    def of(config: SystolicConfig, seed: int) -> Layers:
        rng = np.random.default_rng(seed)
        return Layers(Program(config), Model(config, rng))

    def load(self, place: Place) -> None:
        self.program.load("x", place)
        self.model.transfer(place, True)

    def store(self, place: Place) -> None:
        self.program.store("y", place)
        self.model.transfer(place, False)

    def compute(
        self, operation: Operation, source: Place, target: Place, second: Place | None = None, **fields: int
    ) -> Descriptor:
        pad = fields.pop("pad_y", 0), fields.pop("pad_x", 0)
        stride = fields.pop("stride_y", 1), fields.pop("stride_x", 1)
        d = self.program.compute(operation, source, target, second, stride, pad, **fields)
        self.model.compute(d, source, target, second)
        return d

    def random_layer(self) -> None:
        """LOAD, an operation of any kind, STORE; tensors may have gaps between their rows."""
        rng, config = self.model.rng, self.model.config
        program = self.program
        program.free_word = 0
        operation = (Operation.GEMM, Operation.GEMM, Operation.MAX, Operation.SUM)[rng.integers(4)]
        height, width = (int(n) for n in rng.integers(1, 8, 2))
        channels = int(rng.integers(1, 3 * config.lanes + 1))
        source = program.tensor(height, width, channels, width + int(rng.integers(0, 4)))
        fields: dict[str, int] = {}
        if operation == Operation.SUM:
            second = program.tensor(height, width, channels, source.pitch)
            outputs, out = channels, (height, width)
        else:
            second = None
            sizes = []
            for axis, size in (("y", height), ("x", width)):
                kernel, dilation = int(rng.integers(1, min(3, size) + 1)), int(rng.integers(1, 3))
                pad, stride = int(rng.integers(0, kernel)), int(rng.integers(1, 4))
                if (kernel - 1) * dilation + 1 > size + 2 * pad:
                    dilation = 1
                fields |= {f"kernel_{'height' if axis == 'y' else 'width'}": kernel, f"dilation_{axis}": dilation}
                fields |= {f"pad_{axis}": pad, f"stride_{axis}": stride}
                sizes.append(output_size(size, kernel, stride, pad, dilation))
            out = sizes[0], sizes[1]
            outputs = channels if operation == Operation.MAX else int(rng.integers(1, 3 * config.rows + 1))
        if operation == Operation.GEMM:
            formats = [Flag.NONE]
            if config.shift is not None:
                formats = [Flag.NONE, Flag.TWO_HOT] if config.shift_columns else [Flag.TWO_HOT, Flag.POWER_OF_TWO]
            fields["flags"] = int(formats[rng.integers(len(formats))])
        if operation == Operation.GEMM and rng.random() < 0.3:  # depthwise: a block reads the words of its own channels
            outputs = channels
            fields |= {"channel_words": config.words_per_block, "block_step": config.words_per_block}
            fields["flags"] = int(formats[0])
        target = program.tensor(*out, outputs, out[1] + int(rng.integers(0, 4)))
        self.load(source)
        if second is not None:
            self.load(second)
        self.compute(operation, source, target, second, **fields)
        self.store(target)


@pytest.mark.parametrize(
    ("integers", "pad", "hardware"),
    [("ap_int", 0, True), ("exact", 0, True), *itertools.product(["native"], range(len(PADS)), [False, True])],
)
def test_layers_read_and_write_what_they_must(pad: int, integers: Integers, hardware: bool) -> None:
    for seed in range(12 if integers == "native" else 3):
        layers = Layers.of(PADS[pad], seed)
        for _ in range(4):
            layers.random_layer()
        strict_order(layers.program)
        outcome = run(pad, integers, layers.program, layers.model, seed % 3 * 3, hardware)
        check(outcome, layers.program, layers.model)


@pytest.mark.parametrize("rarely", [0, 6])
@pytest.mark.parametrize("pad", [0, 1, 2])
def test_kept_and_measured_passes(pad: int, rarely: int) -> None:
    """MEASURE: operands, no results; KEPT: results, no operands. Both keep to their counts and their work."""
    layers = Layers.of(PADS[pad], 3)
    source, target = layers.program.tensor(4, 5, 3), layers.program.tensor(4, 5, 9, 7)
    layers.load(source)
    measured = layers.compute(Operation.GEMM, source, target, flags=int(Flag.MEASURE | Flag.KEEP))
    kept = layers.compute(Operation.GEMM, source, target, flags=int(Flag.KEPT), channel_words=1)
    layers.store(target)
    strict_order(layers.program)
    assert not measured.flags & Flag.KEPT
    assert kept.read_slots == 1
    check(run(pad, "native", layers.program, layers.model, rarely), layers.program, layers.model)


def test_loads_and_stores_go_on_beside_a_computing_operation() -> None:
    """A load and a store without anything to wait for end before the long operation that began before them."""
    layers = Layers.of(PADS[1], 4)
    program = layers.program
    source, target = program.tensor(9, 9, 8), program.tensor(9, 9, 64)
    other, loaded = program.tensor(10, 14, 4, 15), program.tensor(4, 9, 4)
    layers.load(other)
    layers.load(source)
    layers.compute(Operation.GEMM, source, target, kernel_height=3, kernel_width=3, pad_y=1, pad_x=1)
    layers.load(loaded)
    layers.store(other)
    layers.store(target)
    layers.store(loaded)
    for number, waits in ((2, (2, 0)), (4, (1, 0)), (5, (0, 1)), (6, (3, 0))):
        d = program.operations[number].descriptor
        d.after_loads, d.after_results = waits
    outcome = run(1, "native", program, layers.model, 0)
    check(outcome, program, layers.model)
    ends = [index for index, _ in outcome.finished]
    assert ends.index(3) < ends.index(2)
    assert ends.index(4) < ends.index(2)
    assert 55 < outcome.most_stored <= 64


@pytest.mark.parametrize("integers", ["native", "exact"])
def test_an_operation_is_read_while_the_results_of_the_one_before_are_awaited(integers: Integers) -> None:
    """Two layers of one input: the second is read though nothing of the first has come back, unless it says it waits.

    A third one, which reads what the first has written, waits for it whatever else is under way.
    """
    layers = Layers.of(PADS[0], 6)
    source = layers.program.tensor(3, 4, 3)
    first, second, third = (layers.program.tensor(3, 4, channels) for channels in (4, 3, 5))
    layers.load(source)
    layers.compute(Operation.GEMM, source, first)
    results = len(layers.model.results)
    layers.compute(Operation.GEMM, source, second)
    operands = len(layers.model.operands)
    layers.compute(Operation.GEMM, first, third)
    layers.store(third)
    second_step, third_step = (item.descriptor for item in layers.program.operations[2:4])
    strict_order(layers.program)
    second_step.after_results = 0
    third_step.after_results = 1
    assert results <= 16, "fewer passes than may be awaited"

    def outcome(held: int) -> Outcome:
        return run(0, integers, layers.program, layers.model, 2, integers == "exact", (0, held))

    check(outcome(operands), layers.program, layers.model)
    second_step.after_results = 1
    with pytest.raises(ScheduleError, match="asks in vain for a word of results"):
        outcome(operands)
    second_step.after_results = 0
    with pytest.raises(ScheduleError, match="asks in vain for a word of results"):
        outcome(operands + 1)


@pytest.mark.parametrize("rarely", [0, 3, 6])
@pytest.mark.parametrize("pad", [0, 2, 4])
def test_layers_that_wait_for_what_they_read_alone(pad: int, rarely: int) -> None:
    """All results of a start have words of their own; the order is the least that their reading needs."""
    layers = Layers.of(PADS[pad], 7 + rarely)
    rng, program = layers.model.rng, layers.program
    source = program.tensor(4, 5, 3)
    layers.load(source)
    written, order = [(source, 0)], [(0, 0, 0)]
    for number in range(1, 13):
        place, after = written[rng.integers(len(written))]
        target = program.tensor(4, 5, int(rng.integers(1, 8)))
        operation = (Operation.GEMM, Operation.GEMM, Operation.MAX)[rng.integers(3)]
        flags = int(Flag.TWO_HOT) if operation == Operation.GEMM and PADS[pad].multiplier == "shift" else 0
        if operation == Operation.MAX:
            target = program.tensor(4, 5, place.channels)
        layers.compute(operation, place, target, flags=flags)
        written.append((target, number))
        order.append((1, after, 0))
    for place, after in written[1:]:
        layers.store(place)
        order.append((0, after, 0))
    for operation_, (loads, results, stores) in zip(program.operations, order, strict=True):
        d = operation_.descriptor
        d.after_loads, d.after_results, d.after_stores = loads, results, stores
    check(run(pad, "native", program, layers.model, rarely), program, layers.model)


def test_an_operation_waits_as_long_for_results_that_are_there_when_its_command_is_taken() -> None:
    """Operations of many lengths: one ends in the clock in which the one that reads its result is taken."""
    for width in range(20, 40):
        layers = Layers.of(PADS[0], width)
        source, between, target = (layers.program.tensor(1, columns, 1) for columns in (width, 1, 1))
        layers.load(source)
        layers.compute(Operation.GEMM, source, between, kernel_width=width)
        layers.compute(Operation.GEMM, between, target)
        strict_order(layers.program)
        held = 0, width
        check(run(0, "exact", layers.program, layers.model, 0, True, held), layers.program, layers.model)


def test_an_operation_that_does_not_wait_breaks_the_waiver() -> None:
    """The maximum reads words that the load beside it has just written."""
    layers = Layers.of(PADS[0], 5)
    source, target = layers.program.tensor(12, 12, 6), layers.program.tensor(1, 12, 6)
    layers.load(source)
    layers.compute(Operation.MAX, source, target, kernel_height=12)
    with pytest.raises(ScheduleError, match=r"iteration \d+ of loop `Scratchpad` reads word \d+ of memory `cell_`"):
        run(0, "exact", layers.program, layers.model, 6, True)
    layers.program.operations[1].descriptor.after_loads = 1
    check(run(0, "exact", layers.program, layers.model, 6, True), layers.program, layers.model)
