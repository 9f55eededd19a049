"""A kernel in plain Python integers, straight from docs/systolic-array.md: slow, without counters, loops or streams.

Addresses are computed from the pixel's place (never by walking), so the group fields of a descriptor are checked by
comparing with a kernel that uses them. Words of shift units are decoded by the sentences of the specification
(`reference_weights`), each time they are multiplied with: the memory holds words, not weights.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from reference import (
    leading_position,
    reference_magnitude,
    reference_mantissa,
    reference_statistics,
    reference_value,
    select_exponent,
    shift,
)
from reference_cluster import block_sums
from reference_positions import ReferenceCollector
from reference_skip import Term, entry_beats, entry_words, terms
from reference_tile import dense_words
from reference_weights import weight_beats, weight_container, weight_kind

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import ADDS_SECOND, Descriptor, Flag, LeadRule, Operation, Policy
from bfpga.contract.descriptor import TELLS_STATISTICS as TELLS
from bfpga.contract.program import BlockTensor, KernelOperation
from bfpga.formats.block_format import Status
from bfpga.formats.containers import unpack_elements

#: Policies that learn a lead from the results of a main pass.
LEARNING = (Policy.ROLLING_MAX, Policy.FEEDBACK)


@dataclass
class Slot:
    """A policy slot; leads are exponents of two, None for a block of zeros."""

    in_use: bool = False
    exponent: int = 0
    measured: int | None = None
    observed: int | None = None
    overflows: int = 0
    values: list[int] = field(default_factory=list)
    collected: ReferenceCollector = field(default_factory=ReferenceCollector)
    predicted: tuple[int, int] | None = None
    ring: list[int | None] = field(default_factory=list)


class ReferenceKernel:
    """What a kernel remembers, and what the last ``run`` counted."""

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        self.memory: dict[tuple[int, int], list[int]] = {}
        self.weights: dict[int, list[list[int]]] = {}
        self.parameters: dict[int, tuple[int, int]] = {}
        self.exponents: dict[int, int] = {}
        self.slots: dict[int, Slot] = {}
        self.wide: dict[tuple[int, int], int] = {}
        self.cycles: list[int] = []
        self.told: list[int] = []
        self.overflow = self.underflow = self.status = 0

    def run(self, operations: list[KernelOperation], tensors: dict[str, BlockTensor], sample: int = 0) -> None:
        """One kernel start."""
        self.cycles, self.overflow, self.underflow, self.status = [], 0, 0, 0
        for operation in operations:
            self.cycles.append(self._execute(operation, tensors, sample))

    def _execute(self, operation: KernelOperation, tensors: dict[str, BlockTensor], sample: int) -> int:
        d = operation.descriptor
        if d.operation == Operation.LOAD:
            return self._load(operation, tensors, sample)
        if d.operation == Operation.STORE:
            return self._store(operation, tensors, sample)
        if d.operation == Operation.WEIGHTS:
            return self._weights(d, operation.weights)
        cycles = self._compute(d, operation.weights)
        if d.lead_rule:
            self.told = self.slots[d.policy_slot].collected.told(d.position_base, self.config.position_bins)
        return cycles

    # Addresses

    def _address(self, d: Descriptor, side: str, p: int, kx: int = 0, ky: int = 0) -> tuple[int, int]:
        oy, ox = divmod(p, d.output_width)
        steps = [(oy, f"{side}_wrap"), (kx, "tap_x"), (ky, "tap_y")]
        word, bank = getattr(d, f"{side}_word"), getattr(d, f"{side}_bank")
        if side == "input":
            steps.append((ox + oy * d.output_width, "input_step"))
        else:  # results of a row follow each other
            bank += ox + oy * d.output_width
        for count, name in steps:
            word += count * getattr(d, f"{name}_word")
            bank += count * getattr(d, f"{name}_bank")
        carry, bank = divmod(bank, self.config.banks)
        return word + carry * getattr(d, f"{side}_pixel_words"), bank

    # Transfers

    def _load(self, operation: KernelOperation, tensors: dict[str, BlockTensor], sample: int) -> int:
        d, transfer, lanes = operation.descriptor, operation.transfer, self.config.lanes
        tensor = tensors[transfer.tensor]
        rows = tensor.mantissa[sample, transfer.y0 : transfer.y1].astype(int)
        pixels = rows.reshape(-1, rows.shape[-1]).tolist()
        for p in range(d.output_pixels):
            word, bank = self._address(d, "output", p)
            for j in range(d.output_pixel_words):
                values = pixels[p][j * lanes : (j + 1) * lanes]
                self.memory[bank, word + j] = values + [0] * (lanes - len(values))
        self.exponents[d.output_slot] = int(tensor.exponent[sample])
        return self._transfer_cycles(d, d.output_pixel_words)

    def _store(self, operation: KernelOperation, tensors: dict[str, BlockTensor], sample: int) -> int:
        d, transfer = operation.descriptor, operation.transfer
        pixels = []
        for p in range(d.output_pixels):
            word, bank = self._address(d, "input", p)
            pixels.append([value for j in range(d.input_pixel_words) for value in self.memory[bank, word + j]])
        tensor = tensors[transfer.tensor]
        rows = np.array(pixels).reshape(transfer.y1 - transfer.y0, -1, len(pixels[0]))
        tensor.mantissa[sample, transfer.y0 : transfer.y1] = rows[:, :, : tensor.mantissa.shape[-1]]
        # Words of accumulators are in a slot that no result has written.
        exponent = self.told[d.input_slot] if d.flags & TELLS else self.exponents.get(d.input_slot, 0)
        tensor.exponent[sample] = exponent
        return self._transfer_cycles(d, d.input_pixel_words)

    def _transfer_cycles(self, d: Descriptor, words: int) -> int:
        """Section 6: one word of as many pixels of a row as a beat and the banks have room for, a clock."""
        pixels = 1
        while 2 * pixels * self.config.word_bits <= self.config.stream_bits and 2 * pixels <= self.config.banks:
            pixels *= 2
        groups = sum(-(-d.output_width // pixels) for _ in range(0, d.output_pixels, d.output_width))
        return groups * words

    def _weights(self, d: Descriptor, data: bytes) -> int:
        beat = self.config.weight_stream_bits // 8
        for row in range(d.parameter_rows):
            part = data[row * beat :]
            self.parameters[d.parameter_base + row] = (
                int.from_bytes(part[:4], "little", signed=True),
                int.from_bytes(part[4:6], "little", signed=True),
            )
        for n, word in enumerate(self._words(data[d.parameter_rows * beat :], d.weight_words)):
            self.weights[d.weight_base + n] = word
        beats = entry_beats(self.config) if self.config.array.stores_entries else weight_beats(self.config)
        return d.parameter_rows + d.weight_words * beats

    def _words(self, data: bytes, count: int) -> list:
        """Weights (rows, lanes) of each word; of a skip array the word itself."""
        if self.config.array.stores_entries:
            return entry_words(self.config, data, count)
        config, bits = self.config, weight_container(self.config)
        per_word = weight_beats(self.config) * config.weight_stream_bits // bits
        elements = unpack_elements(data, bits).reshape(count, per_word)[:, : config.rows * config.lanes]
        return elements.reshape(count, config.rows, config.lanes).tolist()

    # The array

    def _compute(self, d: Descriptor, data: bytes) -> int:
        slot, kind = self.slots.setdefault(d.policy_slot, Slot()), weight_kind(d, self.config)
        flags, groups = Flag(d.flags), -(-d.output_pixels // kind.columns)
        kernel_steps = d.kernel_height * d.kernel_width * d.channel_words
        skips = self._on_skip_array(d) and not flags & Flag.KEPT
        if skips and self.config.array.stores_entries:
            self._entries(d, slot, groups, data)
            return groups * kernel_steps * d.blocks * d.read_slots
        if flags & Flag.CLUSTER:
            self._mapped(d, slot, data)
            rounds = d.blocks + (d.most_moves > 0)
            return rounds * d.channel_words * -(-d.input_height * d.input_width // kind.columns) * d.read_slots
        stream = bool(flags & Flag.STREAM_WEIGHTS)
        brought = self._brought(d, data, groups, kernel_steps) if stream else {}
        first = self.exponents[d.input_slot]
        two = d.operation == Operation.SUM and d.kernel_width == 2
        e_acc = max(first, self.exponents[d.second_slot]) if two else first
        self._begin(d, slot, e_acc)
        wide = d.wide_word
        for group in range(groups):
            for block in range(d.blocks):
                streamed = brought.get((group, block), [])
                accumulators = {}
                for i in range(min(kind.columns, d.output_pixels - group * kind.columns)):
                    if flags & Flag.KEPT and flags & Flag.WIDE:
                        accumulators[i] = self._wide_words(d, group * kind.columns + i, block)
                    elif flags & Flag.KEPT:
                        accumulators[i] = [self.wide.get((i, wide + r)) for r in range(kind.rows)]
                    else:
                        accumulators[i] = self._accumulate(d, group * kind.columns + i, block, streamed, e_acc)
                rows = min(kind.rows, d.output_rows - block * kind.rows)
                if flags & Flag.KEEP and flags & Flag.WIDE:
                    for i, acc in accumulators.items():
                        self._write_wide(d, group * kind.columns + i, block * kind.rows, acc[:rows])
                elif flags & Flag.KEEP:
                    assert wide + rows <= self.config.wide_words
                    self.wide |= {(i, wide + r): acc[r] for i, acc in accumulators.items() for r in range(rows)}
                self._drain(d, slot, group, block, accumulators, e_acc)
                wide += rows
        if flags & Flag.LAST:
            self._learn(d, slot)
        if skips:
            return groups * kernel_steps * d.blocks * d.read_slots
        return self._work(d, groups, kernel_steps)

    def _wide_words(self, d: Descriptor, p: int, block: int) -> list[int | None]:
        """The accumulators of a pass, a word each: bits of the lanes one after the other, lowest first (FP R24)."""
        word, bank = self._address(d, "input", p)
        bits, found = self.config.format.mantissa_bits, []
        for r in range(d.channel_words):
            lanes = self.memory.get((bank, word + block * d.block_step + r))
            joined = "".join(format(value % (1 << bits), f"0{bits}b") for value in reversed(lanes or []))
            digits = joined[-self.config.accumulator_bits :]
            found.append(int(digits, 2) - (int(digits[0]) << len(digits)) if digits else None)
        return found

    def _write_wide(self, d: Descriptor, p: int, row: int, acc: list[int]) -> None:
        word, bank = self._address(d, "output", p)
        bits, half = self.config.format.mantissa_bits, 1 << (self.config.format.mantissa_bits - 1)
        for r, value in enumerate(acc, row):
            parts = [(value // (1 << (bits * lane))) % (2 * half) for lane in range(self.config.lanes)]
            self.memory[bank, word + r] = [part - 2 * half if part >= half else part for part in parts]

    def _on_skip_array(self, d: Descriptor) -> bool:
        """Every GEMM of a kernel without a systolic array, and of one with both those that say so."""
        chosen = not self.config.array.has_both or bool(d.flags & Flag.SKIP_ARRAY)
        return self.config.array.skip_groups(self.config) > 0 and chosen and d.operation == Operation.GEMM

    def _brought(self, d: Descriptor, data: bytes, groups: int, steps: int) -> dict[tuple[int, int], list]:
        """The weights that come for each group and block: of a skip array once for all groups of a run."""
        together = self.config.array.run_passes(self.config) * 2 if self._on_skip_array(d) else 1
        runs = -(-groups // together)
        words = iter(self._words(data, runs * d.blocks * steps))
        blocks = range(d.blocks)
        of_run = [{block: [next(words) for _ in range(steps)] for block in blocks} for _ in range(runs)]
        return {(group, block): of_run[group // together][block] for group in range(groups) for block in blocks}

    def _mapped(self, d: Descriptor, slot: Slot, data: bytes) -> None:
        """A GEMM of a sparse cluster, whose weights are used once, in the order of their words."""
        count, columns = d.kernel_height * d.kernel_width * d.channel_words, self.config.columns
        count = d.weight_block_step if self.config.array.stores_blocks else count
        if d.flags & Flag.STREAM_WEIGHTS:
            words = self._words(data, count * d.blocks)
        else:
            words = [self.weights[d.weight_base + n] for n in range(count * d.blocks)]
        e_acc = self.exponents[d.input_slot]
        self._begin(d, slot, e_acc)
        for block in range(d.blocks):
            own = words[block * count : (block + 1) * count]
            own = dense_words(self.config, d, own) if self.config.array.stores_blocks else own
            sums = block_sums(self.config, d, self.memory.__getitem__, own, block)
            for group in range(-(-d.output_pixels // columns)):
                part = dict(enumerate(sums[group * columns : (group + 1) * columns]))
                self._drain(d, slot, group, block, part, e_acc)
        if d.flags & Flag.LAST:
            self._learn(d, slot)

    def _entries(self, d: Descriptor, slot: Slot, groups: int, data: bytes) -> None:
        """A GEMM of a skip array: every pass, of two groups of columns, reads the same words."""
        count, columns = d.entry_words, self.config.columns
        if d.flags & Flag.STREAM_WEIGHTS:
            read = self._words(data, count * -(-groups // 2))
            words = read[:count]
            assert read == words * -(-groups // 2)
        else:
            words = [self.weights[d.weight_base + n] for n in range(count)]
        products, e_acc, wide = terms(self.config, d, words), self.exponents[d.input_slot], d.wide_word
        self._begin(d, slot, e_acc)
        for group in range(groups):
            pixels = range(group * columns, min(group * columns + columns, d.output_pixels))
            sums = {i: self._summed(d, p, products) for i, p in enumerate(pixels)}
            if d.flags & Flag.KEEP:
                assert wide + d.output_rows <= self.config.wide_words
                self.wide |= {(i, wide + r): acc[r] for i, acc in sums.items() for r in range(d.output_rows)}
            self._drain(d, slot, group, 0, sums, e_acc)
            wide += d.output_rows
        if d.flags & Flag.LAST:
            self._learn(d, slot)

    def _summed(self, d: Descriptor, p: int, products: list[Term]) -> list[int]:
        """Sums of all rows of a pixel."""
        acc, (oy, ox) = [0] * self.config.rows, divmod(p, d.output_width)
        y, x = oy * d.stride_y - d.pad_top, ox * d.stride_x - d.pad_left
        for term in products:
            ky, kx = term.tap
            if 0 <= y + ky * d.dilation_y < d.input_height and 0 <= x + kx * d.dilation_x < d.input_width:
                word, bank = self._address(d, "input", p, kx, ky)
                acc[term.row] += term.weight * self.memory[bank, word + term.word][term.lane]
        return acc

    def _work(self, d: Descriptor, groups: int, kernel_steps: int) -> int:
        """Steps of the scratchpad; a pass of MAX and SUM is one word of channels (docs/kernel.md)."""
        kind, work, window = weight_kind(d, self.config), 0, max(self.config.lanes, d.write_slots)
        if self._on_skip_array(d):  # of kept sums
            return groups * max(kernel_steps * d.read_slots, kind.columns)
        words, passes = kind.rows // self.config.lanes, d.blocks
        if d.operation != Operation.GEMM:
            words, passes = 1, -(-d.output_rows // self.config.lanes)
            kernel_steps = d.kernel_height * d.kernel_width
        for _ in range(groups):
            work += max(sum(max(kernel_steps * d.read_slots, words * window) for _ in range(passes)), kind.columns)
        return work

    def _accumulate(self, d: Descriptor, p: int, block: int, streamed: list, e_acc: int) -> list[int]:
        config, lanes = self.config, self.config.lanes
        start = -(1 << (config.format.mantissa_bits - 1)) if d.operation == Operation.MAX else 0
        kind = weight_kind(d, config)
        acc = [start] * kind.rows
        oy, ox = divmod(p, d.output_width)
        y, x = oy * d.stride_y - d.pad_top, ox * d.stride_x - d.pad_left
        multiplies, adds = (d.operation == operation for operation in (Operation.GEMM, Operation.SUM))
        for ky, kx in itertools.product(range(d.kernel_height), range(d.kernel_width)):
            inside = 0 <= y + ky * d.dilation_y < d.input_height and 0 <= x + kx * d.dilation_x < d.input_width
            if not inside and not adds:
                continue
            word, bank = self._address(d, "input", p, kx, ky)
            tap = ky * d.kernel_width + kx
            for j in range(d.channel_words):
                operand = self.memory.get((bank, word + block * d.block_step + j), [0] * lanes)
                if multiplies:
                    place = d.weight_base + tap * d.weight_tap_step + block * d.weight_block_step + j
                    weights = streamed[tap * d.channel_words + j] if streamed else self.weights[place]
                    for r in range(kind.rows):
                        acc[r] += sum(w * v for w, v in zip(kind.row(weights, r), operand, strict=True))
                    continue
                for row, value in enumerate(operand[: config.rows - j * lanes], j * lanes):
                    acc[row] = acc[row] + self._term(d, kx, value, e_acc) if adds else max(acc[row], value)
        return acc

    def _term(self, d: Descriptor, kx: int, value: int, e_acc: int) -> int:
        exponent = self.exponents[d.second_slot if kx else d.input_slot]
        aligned = shift(value, e_acc - exponent, self.config.format.rounding)
        return -aligned if kx and d.flags & Flag.NEGATE_SECOND else aligned

    def _drain(self, d: Descriptor, slot: Slot, group: int, block: int, accumulators: dict, e_acc: int) -> None:
        kind, first = weight_kind(d, self.config), block * weight_kind(d, self.config).rows
        mantissas: dict[int, list[int]] = {i: [] for i in accumulators}
        for r in range(min(kind.rows, d.output_rows - first)):
            for i, acc in accumulators.items():
                sum_ = self._with_added(d, group * kind.columns + i, first + r, acc[r], e_acc)
                mantissas[i] += self._leave(d, slot, first + r, sum_, e_acc, seen=i == 0)
        for i, values in mantissas.items():
            word, bank = self._address(d, "output", group * kind.columns + i)
            self._write(bank, word + block * (kind.rows // self.config.lanes), values)

    def _with_added(self, d: Descriptor, p: int, row: int, acc: int, e_acc: int) -> int:
        """A sum with what is added to it, in its own unit and range."""
        if d.operation != Operation.GEMM or not d.flags & ADDS_SECOND:
            return acc
        if d.flags & Flag.ROW_EXPONENTS:
            e_acc += self.parameters[d.parameter_base + row][1]
        carry, bank = divmod(d.added_bank + p, self.config.banks)
        word, lane = divmod(row, self.config.lanes)
        value = self.memory[bank, d.added_word + carry * d.added_pixel_words + word][lane]
        top = (1 << (self.config.accumulator_bits - 1)) - 1
        aligned = shift(value, e_acc - self.exponents[d.second_slot], self.config.format.rounding)
        within = min(max(aligned, -top - 1), top)
        total = min(max(acc + within, -top - 1), top)
        if within != aligned or total != acc + within:
            self.status |= Status.ACCUMULATOR_SATURATED
        return total

    def _leave(self, d: Descriptor, slot: Slot, row: int, acc: int, e_acc: int, seen: bool = False) -> list[int]:
        """One value through the output stage: its mantissa, or nothing while it is measured."""
        fmt, e4 = self.config.format, self.exponents.get(d.output_slot, 0)
        bias, exponent = self.parameters.get(d.parameter_base + row, (0, 0))
        v, e3, status = reference_value(
            acc, e_acc, self.config,
            row_exponent=exponent if d.flags & Flag.ROW_EXPONENTS else 0,
            bias=bias if d.flags & Flag.BIAS else None,
            bias_exponent=d.bias_exponent, function=d.function, function_argument=d.function_argument,
            function_exponent=d.function_exponent, function_first=bool(d.flags & Flag.FUNCTION_FIRST),
        )  # fmt: skip
        self.status |= status
        if d.lead_rule and (d.flags & Flag.MEASURE or d.policy in LEARNING):
            slot.collected.see(d, v, e3, e_acc, exponent if d.flags & Flag.ROW_EXPONENTS else 0)
        lead = leading_position(Fraction(abs(v)), fmt.log) + e3 if v else None
        if d.flags & Flag.MEASURE:
            slot.measured = _larger(slot.measured, lead)
            return []
        slot.observed = _larger(slot.observed, lead)
        if seen and d.policy == Policy.STATISTICS:
            self._see(d, slot, reference_magnitude(v, e3, e4, fmt), e4)
        mantissa, overflow, underflow = reference_mantissa(Fraction(v) * Fraction(2) ** e3, e4, fmt)
        slot.overflows += overflow
        self.overflow += overflow
        self.underflow += underflow
        self.status |= Status.OVERFLOW * overflow | Status.UNDERFLOW * underflow
        return [mantissa]

    def _write(self, bank: int, word: int, values: list[int]) -> None:
        """Values of a pixel as whole words; lanes that nothing fills are zero."""
        lanes = self.config.lanes
        for j in range(0, len(values), lanes):
            part = values[j : j + lanes]
            self.memory[bank, word + j // lanes] = part + [0] * (lanes - len(part))

    # Output exponents

    def _select(self, lead: int | None) -> tuple[int, int]:
        # floor(log2) of a power of two is its exponent; a lead already took the format's logarithm
        exponent, status = select_exponent(Fraction(2) ** lead if lead is not None else Fraction(0), self.config.format)
        return exponent, status

    def _begin(self, d: Descriptor, slot: Slot, e_acc: int) -> None:
        if not d.flags & Flag.FIRST:
            return
        if d.flags & Flag.MEASURE:
            slot.measured, slot.collected = None, ReferenceCollector()
            return
        slot.observed, slot.overflows, slot.predicted = None, 0, None
        status = 0
        if d.flags & Flag.COPY_EXPONENT:
            e4 = e_acc
        elif d.policy == Policy.STATIC:
            e4 = d.output_exponent
        elif d.policy != Policy.MAX and slot.in_use:
            e4 = slot.exponent
        elif d.policy != Policy.MAX and d.flags & Flag.PRESET:
            e4 = d.output_exponent
        else:
            e4, status = self._select(self._lead(d, slot, slot.measured))
        self.status |= status
        self.exponents[d.output_slot] = e4
        if d.policy in LEARNING:
            slot.collected = ReferenceCollector()

    def _lead(self, d: Descriptor, slot: Slot, lead: int | None) -> int | None:
        """The lead that a layer's rule makes of what its pass has shown."""
        if d.lead_rule == LeadRule.LEAD:
            return None if lead is None else lead + d.position_margin
        return slot.collected.lead(d, self.config.position_bins, self.config.format.mantissa_bits)

    def _see(self, d: Descriptor, slot: Slot, value: int, e4: int) -> None:
        slot.values.append(value)
        if len(slot.values) == 1 << d.policy_window:
            slot.predicted = self._select(reference_statistics(slot.values, d.policy_factor, e4 + d.position_margin))
            slot.values = []

    def _learn(self, d: Descriptor, slot: Slot) -> None:
        e4, fmt = self.exponents[d.output_slot], self.config.format
        if d.flags & Flag.COPY_EXPONENT or d.policy in (Policy.STATIC, Policy.MAX):
            return
        slot.in_use, status = True, 0
        if d.policy == Policy.STATISTICS:
            slot.exponent, status = slot.predicted or (e4, 0)
            slot.values = slot.values if slot.exponent == e4 else []
        elif d.policy == Policy.ROLLING_MAX:
            slot.ring = [*slot.ring, self._lead(d, slot, slot.observed)][-8:]
            kept = [lead for lead in slot.ring[-d.policy_window :] if lead is not None]
            slot.exponent, status = self._select(max(kept, default=None))
        else:
            step = 1 if slot.overflows > d.policy_factor else 0
            lead = self._lead(d, slot, slot.observed)
            if not step and lead is not None and lead < e4 + fmt.mantissa_bits - 2:
                step = -1
            slot.exponent = max(fmt.exponent_min, min(fmt.exponent_max, e4 + step))
        self.status |= status


def _larger(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)
