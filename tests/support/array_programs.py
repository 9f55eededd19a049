"""Small programs for one kernel start, laid out by hand from docs/systolic-array.md (not by the compiler)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from reference_weights import weight_kind

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.program import BlockTensor, KernelOperation, Transfer
from bfpga.engines.kernel.streams import pack_weight_words


@dataclass
class Place:
    """A tensor in the activation memory: first word, exponent slot, shape, pitch (pixels from row to row)."""

    base: int
    slot: int
    height: int
    width: int
    channels: int
    pitch: int

    def words(self, config: KernelConfig) -> int:
        return -(-self.channels // config.lanes)


@dataclass
class Program:
    """Operations under construction, and the next free memory."""

    config: KernelConfig
    operations: list[KernelOperation] = field(default_factory=list)
    free_word: int = 0
    free_slot: int = 0
    free_weight: int = 0
    free_parameter: int = 0

    def tensor(self, height: int, width: int, channels: int, pitch: int | None = None) -> Place:
        """A place for a tensor."""
        place = Place(self.free_word, self.free_slot, height, width, channels, pitch or width)
        rows = -(-height * place.pitch // self.config.banks)
        self.free_word += rows * place.words(self.config)
        self.free_slot += 1
        assert self.free_word <= self.config.activation_words
        return place

    def _split(self, pixels: int, words: int) -> tuple[int, int]:
        row, bank = divmod(pixels, self.config.banks)
        return row * words, bank

    def _set(self, d: Descriptor, name: str, pixels: int, words: int, base: int = 0) -> None:
        word, bank = self._split(pixels, words)
        setattr(d, f"{name}_word", base + word)
        setattr(d, f"{name}_bank", bank)

    def _transfer(self, d: Descriptor, side: str, place: Place, name: str) -> None:
        words = place.words(self.config)
        d.output_pixels, d.output_width = place.height * place.width, place.width
        setattr(d, f"{side}_pixel_words", words)
        self._set(d, side, 0, words, place.base)
        if side == "input":
            self._set(d, "input_step", 1, words)
        self._set(d, f"{side}_wrap", place.pitch - place.width, words)
        self.operations.append(KernelOperation(name, d, Transfer(name, 0, place.height)))

    def load(self, name: str, place: Place) -> None:
        self._transfer(Descriptor(Operation.LOAD, output_slot=place.slot), "output", place, name)

    def store(self, name: str, place: Place) -> None:
        d = Descriptor(Operation.STORE, flags=Flag.END_PACKET, input_slot=place.slot)
        self._transfer(d, "input", place, name)

    def weights(
        self,
        weights: np.ndarray,
        bias: np.ndarray | None = None,
        exponents: np.ndarray | None = None,
        flags: Flag = Flag.NONE,
    ) -> dict[str, int]:
        """WEIGHTS of a dense layer (channels, height, width, inputs); returns descriptor fields of its GEMM.

        flags: TWO_HOT or POWER_OF_TWO, if ``weights`` are codes of shift units: words, or fields.
        """
        words = self.weight_words(weights, flags)
        rows = 0 if bias is None and exponents is None else len(weights)
        beats = np.zeros((rows, self.config.weight_stream_bits // 8), np.uint8)
        for row in range(rows):
            value = 0 if bias is None else int(bias[row])
            exponent = 0 if exponents is None else int(exponents[row])
            data = value.to_bytes(4, "little", signed=True) + exponent.to_bytes(2, "little", signed=True)
            beats[row, :6] = np.frombuffer(data, np.uint8)
        data = beats.tobytes() + pack_weight_words(words, self.config)
        d = Descriptor(Operation.WEIGHTS, weight_base=self.free_weight, parameter_base=self.free_parameter)
        d.weight_words, d.parameter_rows = words.shape[0] * words.shape[1] * words.shape[2], rows
        self.operations.append(KernelOperation("weights", d, weights=data))
        fields = {
            "weight_base": self.free_weight,
            "weight_tap_step": words.shape[2],
            "weight_block_step": words.shape[1] * words.shape[2],
            "parameter_base": self.free_parameter,
            "flags": (
                flags | (Flag.BIAS if bias is not None else 0) | (Flag.ROW_EXPONENTS if exponents is not None else 0)
            ),
        }
        self.free_weight += d.weight_words
        self.free_parameter += rows
        return fields

    def weight_words(self, weights: np.ndarray, flags: int = Flag.NONE) -> np.ndarray:
        """(blocks, taps, channel words, rows, lanes) of dense weights; a word of two fields holds two channels."""
        config = self.config
        rows = weight_kind(Descriptor(Operation.GEMM, flags), config).rows
        outputs, height, width, inputs = weights.shape
        blocks, words = -(-outputs // rows), -(-inputs // config.lanes)
        padded = np.zeros((blocks * rows, height * width, words * config.lanes), int)
        padded[:outputs, :, :inputs] = weights.reshape(outputs, -1, inputs)
        shaped = padded.reshape(blocks, rows, height * width, words, config.lanes).transpose(0, 2, 3, 1, 4)
        if rows == config.rows:
            return shaped
        assert config.shift is not None
        return shaped[..., : config.rows, :] << config.shift.field_bits | shaped[..., config.rows :, :]

    def compute(
        self,
        operation: Operation,
        source: Place,
        target: Place,
        second: Place | None = None,
        stride: tuple[int, int] = (1, 1),
        pad: tuple[int, int] = (0, 0),
        **fields: int,
    ) -> Descriptor:
        """GEMM, MAX or SUM from ``source`` (and ``second``) to the whole of ``target``."""
        config, words = self.config, source.words(self.config)
        kind = weight_kind(Descriptor(operation, fields.get("flags", 0)), config)
        d = Descriptor(operation, input_slot=source.slot, output_slot=target.slot)
        d.output_pixels, d.output_width = target.height * target.width, target.width
        d.group_columns = kind.columns
        (d.stride_y, d.stride_x), (d.pad_top, d.pad_left) = stride, pad
        d.input_height, d.input_width = source.height, source.width
        d.blocks, d.output_rows = -(-target.channels // kind.rows), target.channels
        d.channel_words = words if operation == Operation.GEMM else min(words, config.words_per_block)
        d.block_step = 0 if operation == Operation.GEMM else config.words_per_block
        for name, value in fields.items():
            setattr(d, name, value)
        d.input_pixel_words = words
        self._walk(d, "input", source, stride, -pad[0] * source.pitch - pad[1])
        self._walk(d, "output", target, (1, 1), 0)
        if second is None:
            self._set(d, "tap_x", d.dilation_x, words)
            self._set(d, "tap_y", d.dilation_y * source.pitch, words)
        else:
            assert second.pitch == source.pitch
            d.second_slot, d.kernel_width, d.tap_x_word = second.slot, 2, second.base - source.base
            d.dilation_x = d.dilation_y = 0
        d.read_runs, d.read_slots = self._runs(d, kind.columns, source.pitch, stride)
        d.write_runs, d.write_slots = self._rows(d, kind.columns, target.pitch)
        drain = kind.rows // config.lanes * max(config.lanes, d.write_slots)
        d.steps = max(d.kernel_height * d.kernel_width * d.channel_words * d.read_slots, drain)
        d.groups = -(-d.output_pixels // kind.columns)
        self.operations.append(KernelOperation("compute", d))
        return d

    def _walk(self, d: Descriptor, side: str, place: Place, stride: tuple[int, int], start: int) -> None:
        words = place.words(self.config)
        setattr(d, f"{side}_pixel_words", words)
        row, column = stride[0] * place.pitch, stride[1]
        self._set(d, side, start, words, place.base)
        if side == "input":
            self._set(d, "input_step", column, words)
        self._set(d, f"{side}_wrap", row - d.output_width * column, words)

    def _runs(self, d: Descriptor, columns: int, pitch: int, stride: tuple[int, int]) -> tuple[int, int]:
        """(runs, slots): one slot if no two columns of a group meet in a bank, else one for each row of a group."""
        conflict, spread = False, 1
        for first in range(0, d.output_pixels, columns):
            pixels = [divmod(p, d.output_width) for p in range(first, first + columns)]
            banks = [(y * stride[0] * pitch + x * stride[1]) % self.config.banks for y, x in pixels]
            conflict |= len(set(banks)) < len(banks)
            spread = max(spread, pixels[-1][0] - pixels[0][0] + 1)
        return (1, spread) if conflict else (0, 1)

    @staticmethod
    def _rows(d: Descriptor, columns: int, pitch: int) -> tuple[int, int]:
        """(runs, slots): one slot for each output row of a group, unless rows follow each other in memory."""
        spread = 1
        for first in range(0, d.output_pixels, columns):
            last = min(first + columns, d.output_pixels) - 1
            spread = max(spread, last // d.output_width - first // d.output_width + 1)
        return (0, 1) if pitch == d.output_width else (int(spread > 1), spread)

    def stream_weights(self, weights: np.ndarray) -> None:
        """Weights of the last GEMM, which streams them: the words of all blocks, once for each group of columns."""
        operation = self.operations[-1]
        d = operation.descriptor
        groups = -(-d.output_pixels // weight_kind(d, self.config).columns)
        operation.weights = pack_weight_words(self.weight_words(weights, d.flags), self.config) * groups


def empty(place: Place) -> BlockTensor:
    """Where a store goes."""
    return BlockTensor(np.zeros((1, place.height, place.width, place.channels), np.int32), np.zeros(1, np.int32))


def random_tensor(rng: np.random.Generator, place: Place, config: KernelConfig, exponent: int = -5) -> BlockTensor:
    """One sample of random mantissas."""
    low, high = config.format.mantissa_min, config.format.mantissa_max
    values = rng.integers(low, high + 1, (1, place.height, place.width, place.channels)).astype(np.int32)
    return BlockTensor(values, np.array([exponent], np.int32))


def mixed_program(config: KernelConfig) -> tuple[Program, dict[str, BlockTensor]]:
    """Every operation once: convolution, pooling, residual sum, two stores."""
    program, rng = Program(config), np.random.default_rng(11)
    x, hidden, pooled, y = (program.tensor(4, 6, channels) for channels in (3, 6, 6, 6))
    program.load("x", x)
    layer = program.weights(rng.integers(-7, 8, (6, 3, 3, 3)), rng.integers(-99, 99, 6), rng.integers(-2, 3, 6))
    layer["flags"] |= Flag.FIRST | Flag.LAST
    program.compute(
        Operation.GEMM, x, hidden, pad=(1, 1), kernel_height=3, kernel_width=3, output_exponent=-2,
        bias_exponent=-6, function=2, function_argument=3, **layer,
    )  # fmt: skip
    flags = Flag.FIRST | Flag.LAST
    program.compute(
        Operation.MAX, hidden, pooled, pad=(1, 1), kernel_height=3, kernel_width=3, flags=flags | Flag.COPY_EXPONENT
    )
    program.compute(Operation.SUM, hidden, y, second=pooled, flags=flags, output_exponent=-1)
    program.store("hidden", hidden)
    program.store("y", y)
    return program, {"x": random_tensor(rng, x, config), "hidden": empty(hidden), "y": empty(y)}
