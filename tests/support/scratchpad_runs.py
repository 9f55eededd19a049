"""Runs of processes/scratchpad.hpp beside a memory of numpy: programs, what streams bring and must take."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from array_programs import Place, Program
from cpp_units import library
from kernel_pairs import output_size
from reference_weights import weight_kind

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.devices.csim import Integers
from bfpga.engines.kernel.cycles import operation_cycles

Integer = npt.NDArray[np.int32]
BEATS = 30000
#: What an operand says of its chunk.
CHUNK_FLAGS = 5
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
        *((name, ctypes.c_int32) for name in ("rarely", "seed", "capacity")),
        *((name, ctypes.c_int32) for name in ("first_held", "operands_before", "patience")),
        *((name, ctypes.c_void_p) for name in ("operand", "vector", "stored", "finished", "credit")),
        ("counts", ctypes.c_int32 * 5),
        *((name, ctypes.c_int32) for name in ("most_stored", "work")),
        ("error", ctypes.c_char * 256),
    )


class ScheduleError(Exception):
    """What a scratchpad stops with."""


@dataclass
class Outcome:
    """What a scratchpad has sent, and (index, work) of the operations in the order of their ends.

    chunks: opens, closes, single, leaves and apart of each operand; credits: operands that had gone when each came.
    """

    operands: Integer
    chunks: Integer
    credits: list[int]
    vectors: Integer
    stored: Integer
    finished: list[tuple[int, int]]
    most_stored: int


@dataclass
class Model:
    """Executes operations one after the other on a memory; collects what streams bring and take."""

    config: KernelConfig
    rng: np.random.Generator
    loads: list[Integer] = field(default_factory=list)
    results: list[Integer] = field(default_factory=list)
    operands: list[Integer] = field(default_factory=list)
    chunks: list[list[bool]] = field(default_factory=list)
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
        columns = weight_kind(d, config).columns
        pixels = np.arange(d.output_pixels)
        groups = [pixels[first : first + columns] for first in range(0, d.output_pixels, columns)]
        gemm = d.operation == Operation.GEMM
        if config.array.computes_runs and gemm and not d.flags & Flag.KEPT:
            self._compute_runs(d, groups, source, target)
            return
        at_once = 2 if config.array.skip_groups(config) and gemm and not d.flags & Flag.KEPT else 1
        for first in range(0, len(groups), at_once):
            halves = groups[first : first + at_once]
            if at_once > 1:
                self._read_chunks(d, halves, source)
            else:
                self._read(d, halves[0], source, second)
            for group in halves if not d.flags & Flag.MEASURE else []:
                for word in range(-(-d.output_rows // config.lanes)):
                    self._write(group, target, word)

    def _compute_runs(
        self, d: Descriptor, groups: list[npt.NDArray[np.int64]], source: Place, target: Place
    ) -> None:
        """An array that skips activations: runs, blocks, chunks, passes, steps, halves, slots; results of a block."""
        config = self.config
        steps = list(itertools.product(range(d.kernel_height), range(d.kernel_width), range(d.channel_words)))
        chunks = [steps[first : first + d.chunk_steps] for first in range(0, len(steps), d.chunk_steps)]
        most = 2 * config.array.run_passes(config)
        runs = [groups[first : first + most] for first in range(0, len(groups), most)]
        words, per_block = -(-d.output_rows // config.lanes), config.words_per_block
        for run, block in itertools.product(runs, range(d.blocks)):
            passes = [run[first : first + 2] for first in range(0, len(run), 2)]
            for (index, chunk), (number, halves) in itertools.product(enumerate(chunks), enumerate(passes)):
                marks = [index == 0, index == len(chunks) - 1, len(halves) == 1, number == len(passes) - 1]
                marks.append(bool(d.flags & Flag.LANES_APART))
                self._read_steps(d, chunk, halves, source, block, marks)
            for group in run if not d.flags & Flag.MEASURE else []:
                for word in range(per_block * block, min(per_block * (block + 1), words)):
                    self._write(group, target, word)

    def _read_steps(
        self,
        d: Descriptor,
        chunk: list[tuple[int, int, int]],
        halves: list[npt.NDArray[np.int64]],
        source: Place,
        block: int,
        marks: list[bool],
    ) -> None:
        """What a pass reads of a chunk: steps, halves, slots."""
        for (number, step), group, slot in itertools.product(enumerate(chunk), halves, range(d.read_slots)):
            values, mine, _ = self._taps(d, group, source, None, step, block * d.block_step, slot)
            flags = [slot == d.read_slots - 1, number == 0, number == len(chunk) - 1]
            self.operands.append(np.concatenate([flags, mine, values.ravel()]))
            self.chunks.append(marks)

    def _read_chunks(self, d: Descriptor, halves: list[npt.NDArray[np.int64]], source: Place) -> None:
        """A pass of a skip array: blocks, chunks of steps, steps, halves, slots."""
        steps = list(itertools.product(range(d.kernel_height), range(d.kernel_width), range(d.channel_words)))
        for block, first in itertools.product(range(d.blocks), range(0, len(steps), d.chunk_steps)):
            chunk = steps[first : first + d.chunk_steps]
            closes = block == d.blocks - 1 and first + len(chunk) == len(steps)
            marks = [first == 0, closes, len(halves) == 1, False, bool(d.flags & Flag.LANES_APART)]
            self._read_steps(d, chunk, halves, source, block, marks)

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
            offset = block * (d.block_step if gemm else 1)
            values, mine, present = self._taps(d, group, source, second, (ky, kx, word), offset, slot)
            flags = [slot == d.read_slots - 1]
            if gemm:
                flags += [number == 0, flags[0] and number == len(steps) - 1]
                self.operands.append(np.concatenate([flags, mine, values.ravel()]))
            else:
                self.vectors.append(np.concatenate([flags, mine, present, values.ravel()]))

    def _taps(
        self,
        d: Descriptor,
        group: npt.NDArray[np.int64],
        source: Place,
        second: Place | None,
        step: tuple[int, int, int],
        offset: int,
        slot: int,
    ) -> tuple[Integer, Integer, Integer]:
        """Words that the columns read in a slot of a step, which columns read, and which of them inside the image."""
        config, (ky, kx, word) = self.config, step
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
            values[column] = self._at(place, y * place.pitch + x, offset + word)
        return values, mine, present

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
    patience: int = 0,
) -> Outcome:
    """One start of the scratchpad number ``pad`` of tests/cpp/scratchpad.cpp, or skip_scratchpad.cpp.

    held: results from the first number on come when so many operands have gone; patience: how often it asks for a
    credit of a skip array until one comes.
    """
    config = model.config
    width = config.columns * config.lanes
    descriptors = np.array([operation.descriptor.to_words() for operation in program.operations], np.int32)

    def flat(beats: list[Integer]) -> Integer:
        return np.ascontiguousarray(np.array(beats, np.int32).ravel())

    given = descriptors, flat(model.loads), flat(model.results)
    operands = np.zeros((BEATS, 3 + config.columns + width + CHUNK_FLAGS), np.int32)
    vectors = np.zeros((BEATS, 1 + 2 * config.columns + width), np.int32)
    stored = np.zeros((BEATS, config.transfer_pixels, config.lanes), np.int32)
    finished = np.zeros((len(descriptors), 2), np.int32)
    credits = np.zeros(BEATS, np.int32)
    start = _Start(
        len(descriptors), given[0].ctypes.data, len(model.loads), given[1].ctypes.data, len(model.results),
        given[2].ctypes.data, rarely, 5, BEATS, *held, patience,
        *(array.ctypes.data for array in (operands, vectors, stored, finished, credits)),
    )  # fmt: skip
    name = {"none": "scratchpad", "weights": "skip_scratchpad", "activations": "sparse_scratchpad"}[config.array.zeros]
    unit = library(name, integers, config.array)
    assert unit.unit_scratchpad(pad, int(hardware), ctypes.byref(start)) == 0
    if start.error:
        raise ScheduleError(start.error.decode())
    counts = list(start.counts)
    assert operands[counts[0] - 1].ravel()[0] == -1, "the stop beat comes last"
    ends = [(int(index), int(work)) for index, work in finished[: counts[3]]]
    assert start.work == sum(work for _, work in ends)
    sent = operands[: counts[0] - 1]
    return Outcome(
        sent[:, :-CHUNK_FLAGS], sent[:, -CHUNK_FLAGS:], credits[: counts[4]].tolist(), vectors[: counts[1]],
        stored[: counts[2]], ends, start.most_stored,
    )  # fmt: skip


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
    """Whether a scratchpad has sent what the model has, and counted the work of every operation."""
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
    def of(config: KernelConfig, seed: int) -> Layers:
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
        if operation == Operation.GEMM and config.array.stores_entries:
            outputs = self._chunks(fields, source)
        elif operation == Operation.GEMM and rng.random() < 0.3:
            # Depthwise: a block reads the words of its own channels.
            outputs = channels
            fields |= {"channel_words": config.words_per_block, "block_step": config.words_per_block}
            fields["flags"] = int(formats[0])
        if operation == Operation.GEMM and config.array.computes_runs:
            words = fields.get("channel_words", source.words(config))
            self._run_chunks(fields, fields["kernel_height"] * fields["kernel_width"] * words)
        target = program.tensor(*out, outputs, out[1] + int(rng.integers(0, 4)))
        self.load(source)
        if second is not None:
            self.load(second)
        self.compute(operation, source, target, second, **fields)
        self.store(target)

    def _run_chunks(self, fields: dict[str, int], steps: int) -> None:
        """Chunks of a GEMM for an array that skips activations, put into ``fields``."""
        config = self.model.config
        chunk = int(self.model.rng.integers(1, 1 + min(steps, config.array.chunk_words(config) // config.lanes)))
        fields |= {"chunk_steps": chunk, "chunk_buffers": -(-steps // chunk)}
        if self.model.rng.random() < 0.3:  # said to the array alone, whatever pixels there are
            fields["flags"] = fields.get("flags", 0) | int(Flag.LANES_APART)

    def _chunks(self, fields: dict[str, int], source: Place) -> int:
        """Chunks of a GEMM for a skip array, put into ``fields``; its output channels."""
        rng, config = self.model.rng, self.model.config
        words = source.words(config)
        taps = fields["kernel_height"] * fields["kernel_width"]
        most = config.array.chunk_words(config) // config.lanes
        if rng.random() < 0.3:  # lanes apart: a step takes one word of the windows
            fields["flags"], most = fields["flags"] | int(Flag.LANES_APART), config.array.chunk_words(config)
        fields |= {"chunk_steps": int(rng.integers(1, most + 1)), "chunk_buffers": int(rng.integers(1, 5))}
        if words > 1 and rng.random() < 0.4:  # depthwise: every word of channels has a window of its own
            block = int(rng.integers(1, 1 + min(words, most // taps)))
            fields |= {"channel_words": block, "block_step": block, "blocks": -(-words // block)}
            fields["chunk_steps"] = int(rng.integers(taps * block, most + 1))
            return source.channels
        return int(rng.integers(1, config.rows + 1))
