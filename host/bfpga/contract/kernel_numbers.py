"""The numbers of a kernel that its C++ reads, and what makes it another kernel than others: its identity.

``vendor/render.py`` writes the numbers into ``config.hpp``. An accelerator's digest is that of the identity, so it
depends on what a key does in the kernel and not on how files and records hold it.
Only the standard library and numpy are imported: a board loads this module too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bfpga.contract.commands import commands
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import Function
from bfpga.contract.layout import layout_digest
from bfpga.contract.number_group import Number, NumberGroup, number_group
from bfpga.contract.position_stream import AWAITED_EXPONENTS, POSITION_STREAM, TOLD_EXPONENTS
from bfpga.contract.processes import host_streams, kernel_processes, process_streams
from bfpga.contract.program_header import HEADER_WORDS
from bfpga.formats.shift_format import ShiftFormat

#: What kernels had before there was a number for it. With this value it leaves no trace in a digest, as a number that
#: is 0 or False does. A new key whose default is another value has an entry here; entries never change, since kernels
#: with that value were built with this digest.
BEFORE: Mapping[str, Number] = {"skip_halves": 2, "skip_chunk": 256, "skip_queue": 32, "skip_passes": 16}

#: Kinds of arrays that are told apart by their numbers, processes and streams, and so without their names in a digest.
UNNAMED = ("systolic", "skip_array", "sparse_array", "two_arrays", "sparse_cluster", "zero_skip_tile")


def kernel_identity(config: KernelConfig) -> dict[str, Any]:
    """What makes a kernel another one, as JSON's types: its numbers, its processes, what goes between them, its layout.

    Numbers that say that something is not there, or is as it was before there was a key for it, are left out.
    """
    named = {} if config.array.kind in UNNAMED else {"array": config.array.kind}
    return named | {
        "numbers": {name: value for name, value in _numbers(config).items() if value and value != BEFORE.get(name)},
        "multiplier": config.multiplier,
        "processes": list(kernel_processes(config)),
        "host_streams": dict(host_streams(config)),
        "streams": {item.name: [item.source, item.target, item.bits] for item in process_streams(config)},
        "commands": {item.process: [sorted(map(int, item.operations)), list(item.fields)] for item in commands(config)},
        "layout": layout_digest(*config.layout_parts),
    } | ({"program_header": list(HEADER_WORDS)} if config.program_descriptors else {}) | (
        {"positions": [TOLD_EXPONENTS, AWAITED_EXPONENTS, POSITION_STREAM.bits]} if config.position_stream else {}
    )


def _numbers(config: KernelConfig) -> dict[str, Number]:
    """The numbers of the C++, and those by which the host cuts maps for this kernel."""
    numbers = {name: value for group in number_groups(config) for name, value in group.numbers.items()}
    return numbers | config.array.host_numbers()


def pascal(name: str) -> str:
    """A name of several words as C++ has it for types and members: `half_up` -> `HalfUp`."""
    return "".join(part.capitalize() for part in name.split("_"))


def mask_of(codes: Iterable[int]) -> int:
    """A mask with the bits of these numbers."""
    return sum(1 << code for code in codes)


def number_groups(config: KernelConfig) -> list[NumberGroup]:
    """Every number the library reads, in the groups of the rendered header."""
    form, array = config.format, config.array
    return [
        number_group(
            "Block floating point format",
            mantissa_bits=form.mantissa_bits,
            container_bits=form.container_bits,
            mantissa_min=form.mantissa_min,
            mantissa_max=form.mantissa_max,
            exponent_min=form.exponent_min,
            exponent_max=form.exponent_max,
            rounding=f"Rounding::{pascal(form.rounding)}",
            saturation=f"Saturation::{pascal(form.saturation)}",
            log=f"LogMode::{pascal(form.log)}",
        ),
        number_group(
            "Array: dot tiles of `lanes` products in `rows` x `columns`",
            columns=config.columns,
            rows=config.rows,
            lanes=config.lanes,
            words_per_block=config.words_per_block,
            packing_shift=config.packing_shift,
            accumulator_bits=config.accumulator_bits,
            accumulator_rows=config.accumulator_rows,
            hop_columns=array.weight_copy_columns(config),
            tap_reuse=config.tap_reuse,
            bias_bits=config.bias_bits,
        ),
        number_group(
            "Skip array in place of the systolic array: groups (0: there is none), whether it skips activations, "
            "halves of its pixels, wide words of a chunk, entries or words of a group's queue, passes for which the "
            "weights of a chunk stay, bits of a stored entry without its marks, whether there is a systolic array too",
            skip_groups=array.skip_groups(config),
            skip_activations=array.computes_runs,
            skip_halves=array.halves,
            skip_chunk=array.chunk_words(config),
            skip_queue=array.queue_words(),
            skip_passes=array.run_passes(config),
            entry_field_bits=array.entry_field_bits(config),
            dense_beside=array.has_both,
        ),
        number_group(
            "Whether a sparse cluster takes the place of the array",
            has_cluster=array.reads_maps,
        ),
        *array.number_groups(config),
        number_group(
            "Weights: mantissas, or words of shift units in `shift_columns` columns or in all; whether tensors may be "
            "weights",
            weight_bits=config.weight_bits,
            weight_container_bits=config.weight_container_bits,
            operand_weights=config.operand_weights,
            shift_columns=config.shift_columns,
            **_shift_numbers(config.shift),
        ),
        number_group(
            "Memories",
            banks=config.banks,
            activation_words=config.activation_words,
            weight_words=config.weight_words,
            parameter_rows=config.parameter_rows,
            tensor_slots=config.tensor_slots,
            policy_slots=config.policy_slots,
            ultra_activations="activations" in config.ultra_ram,
            ultra_weights="weights" in config.ultra_ram,
        ),
        number_group(
            "Positions found by the data: bins of the collector, accumulators a column in the keep buffer, "
            "and whether the activation memory keeps some",
            position_bins=config.position_bins,
            wide_words=config.wide_words,
            wide_memory=config.wide_memory,
        ),
        number_group(
            "Registers that count what operations store, by which others are skipped",
            count_registers=config.count_registers,
        ),
        number_group(
            "Streams",
            stream_bits=config.stream_bits,
            words_per_beat=config.words_per_beat,
            transfer_pixels=config.transfer_pixels,
            weight_stream_bits=config.weight_stream_bits,
            beats_per_weight_word=config.beats_per_weight_word,
            compressed_maps=config.compressed_maps,
        ),
        number_group("Columns of the process of rows, if there is one", row_columns=config.row_columns),
        number_group(
            "Columns that the output stage computes at once, each row in turns; 0: all",
            post_columns=config.post_columns if config.row_turns > 1 else 0,
        ),
        number_group(
            "Whether a product may add a tensor to its sums, and whether all exponents are static",
            residual_adds=config.residual_adds,
            static_exponents=config.static_exponents,
        ),
        *_program_memory(config),
        _depths(config),
        number_group(
            "Functions that are built in: bit n for the function of code n; tables of others that are loaded",
            functions=mask_of(Function.named(name) for name in config.built_in_functions),
            function_tables=config.function_tables,
        ),
    ]


def _program_memory(config: KernelConfig) -> Iterator[NumberGroup]:
    """Of kernels that have one: the headers of others are as they were before there were any."""
    if config.program_descriptors:
        yield number_group(
            "Descriptors that the program memory holds", program_descriptors=config.program_descriptors
        )


def _depths(config: KernelConfig) -> NumberGroup:
    """Depths of the streams between the processes of a kernel."""
    depths = {f"{item.name}_depth": item.depth for item in process_streams(config)}
    return number_group("Words that the streams between the processes hold", **depths)


def _shift_numbers(shift: ShiftFormat | None) -> dict[str, Number]:
    """Numbers of the shift units' words; nothing for an array without them."""
    if shift is None:
        return {}
    return {
        "shift_exp_width": shift.exp_width,
        "shift_d": shift.d,
        "shift_base_log2": shift.base_log2,
        "shift_zero_code": f"ZeroCode::{pascal(shift.zero_code)}",
        "shift_zero_scope": f"ZeroScope::{pascal(shift.zero_scope)}",
        "shift_sign_mode": f"SignMode::{pascal(shift.sign_mode)}",
    }
