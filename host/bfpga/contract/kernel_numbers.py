"""The numbers of a kernel that its C++ reads, and what makes it another kernel than others: its identity.

``vendor/render.py`` writes the numbers into ``config.hpp``. An accelerator's digest is that of the identity, so it
depends on what a key does in the kernel and not on how files and records hold it.
Only the standard library and numpy are imported: a board loads this module too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from bfpga.contract.commands import commands
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.functions import Function
from bfpga.contract.layout import layout_digest
from bfpga.contract.processes import CLUSTER_AHEAD, host_streams, kernel_processes, process_streams
from bfpga.formats.shift_format import ShiftFormat

#: A number in C++; a text is a member of an enumeration, as `Rounding::HalfUp`.
Number: TypeAlias = "int | bool | str"

#: What kernels had before there was a number for it. With this value it leaves no trace in a digest, as a number that
#: is 0 or False does. A new key whose default is another value has an entry here; entries never change, since kernels
#: with that value were built with this digest.
BEFORE: Mapping[str, Number] = {"skip_halves": 2, "skip_chunk": 256, "skip_queue": 32, "skip_passes": 16}


@dataclass(frozen=True)
class NumberGroup:
    """Numbers that belong together, by their names in C++."""

    comment: str
    numbers: Mapping[str, Number]


def kernel_identity(config: KernelConfig) -> dict[str, Any]:
    """What makes a kernel another one, as JSON's types: its numbers, its processes, what goes between them, its layout.

    Numbers that say that something is not there, or is as it was before there was a key for it, are left out.
    """
    return {
        "numbers": {name: value for name, value in _numbers(config).items() if value and value != BEFORE.get(name)},
        "multiplier": config.multiplier,
        "processes": list(kernel_processes(config)),
        "host_streams": dict(host_streams(config)),
        "streams": {item.name: [item.source, item.target, item.bits] for item in process_streams(config)},
        "commands": {item.process: [sorted(map(int, item.operations)), list(item.fields)] for item in commands(config)},
        "layout": layout_digest(config.functions),
    }


def _numbers(config: KernelConfig) -> dict[str, Number]:
    """The numbers of the C++, and those by which the host cuts maps for this kernel."""
    numbers = {name: value for group in number_groups(config) for name, value in group.numbers.items()}
    if config.cuts_maps:
        numbers |= {"cluster_threshold": config.cluster_threshold, "cluster_moves": config.cluster_moves}
    return numbers


def pascal(name: str) -> str:
    """A name of several words as C++ has it for types and members: `half_up` -> `HalfUp`."""
    return "".join(part.capitalize() for part in name.split("_"))


def mask_of(codes: Iterable[int]) -> int:
    """A mask with the bits of these numbers."""
    return sum(1 << code for code in codes)


def _group(comment: str, **numbers: Number) -> NumberGroup:
    return NumberGroup(comment, numbers)


def number_groups(config: KernelConfig) -> list[NumberGroup]:
    """Every number the library reads, in the groups of the rendered header."""
    form = config.format
    return [
        _group(
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
        _group(
            "Array: dot tiles of `lanes` products in `rows` x `columns`",
            columns=config.columns,
            rows=config.rows,
            lanes=config.lanes,
            words_per_block=config.words_per_block,
            packing_shift=config.packing_shift,
            accumulator_bits=config.accumulator_bits,
            accumulator_rows=config.accumulator_rows,
            hop_columns=config.hop_columns or config.columns,
            tap_reuse=config.tap_reuse,
            bias_bits=config.bias_bits,
        ),
        _group(
            "Skip array in place of the systolic array: groups (0: there is none), whether it skips activations, "
            "halves of its pixels, wide words of a chunk, entries or words of a group's queue, passes for which the "
            "weights of a chunk stay, bits of a stored entry without its marks, whether there is a systolic array too",
            skip_groups=config.skip_groups,
            skip_activations=config.skips_activations,
            skip_halves=config.skip_halves,
            skip_chunk=config.skip_chunk,
            skip_queue=config.skip_queue,
            skip_passes=config.skip_passes,
            entry_field_bits=config.entry_field_bits,
            dense_beside=config.dense_beside,
        ),
        _group(
            "Whether a sparse cluster takes the place of the array",
            has_cluster=config.has_cluster,
        ),
        *_cluster(config),
        _group(
            "Weights: mantissas, or words of shift units in `shift_columns` columns or in all",
            weight_bits=config.weight_bits,
            weight_container_bits=config.weight_container_bits,
            shift_columns=config.shift_columns,
            **_shift_numbers(config.shift),
        ),
        _group(
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
        _group(
            "Positions found by the data: bins of the collector, accumulators a column in the keep buffer, "
            "and whether the activation memory keeps some",
            position_bins=config.position_bins,
            wide_words=config.wide_words,
            wide_memory=config.wide_memory,
        ),
        _group(
            "Registers that count what operations store, by which others are skipped",
            count_registers=config.count_registers,
        ),
        _group(
            "Streams",
            stream_bits=config.stream_bits,
            words_per_beat=config.words_per_beat,
            transfer_pixels=config.transfer_pixels,
            weight_stream_bits=config.weight_stream_bits,
            beats_per_weight_word=config.beats_per_weight_word,
            compressed_maps=config.compressed_maps,
        ),
        _depths(config),
        _group(
            "Functions that are built in: bit n for the function of code n",
            functions=mask_of(Function.named(name) for name in config.functions),
        ),
    ]


def _cluster(config: KernelConfig) -> list[NumberGroup]:
    """Numbers of a sparse cluster in the place of the array."""
    if not config.has_cluster:
        return []
    return [
        _group(
            "Sparse cluster: grid of its units, rows and columns of the largest kernel, blocks of sums of a piece, "
            "words that wait for a unit, steps of a channel, steps that wait, lines of the largest map, blocks of its "
            "full grid; whether steps are listed by taps, lanes of units that take values of a block at once, weights "
            "of a kernel, whether products of a cell are added to each other; whether sums are shifted below products "
            "of all values of a block; whether pieces own outputs and share cells; whether a tile takes the place of "
            "the units, rows and columns of its sums, rows at once",
            cluster_rows=config.cluster_rows,
            cluster_columns=config.cluster_columns,
            cluster_kernel=config.cluster_kernel,
            cluster_words=config.cluster_words,
            cluster_queue=config.cluster_queue,
            cluster_steps=max(config.rows, config.step_distance) * config.step_lists,
            cluster_ahead=CLUSTER_AHEAD,
            cluster_lines=config.cluster_lines,
            cluster_blocks=config.cluster_blocks,
            cluster_indexed=config.lists_taps,
            cluster_products=config.cluster_products,
            cluster_weights=config.step_weights,
            cluster_adds_pairs=config.cluster_variant == "D",
            cluster_shifts=config.shifts_window,
            cluster_halo=config.has_halo,
            has_tile=config.has_tile,
            tile_rows=config.tile_rows,
            tile_columns=config.tile_columns,
            tile_parallel=config.tile_parallel,
        )
    ]


def _depths(config: KernelConfig) -> NumberGroup:
    """Depths of the streams between the processes of a kernel."""
    depths = {f"{item.name}_depth": item.depth for item in process_streams(config)}
    return _group("Words that the streams between the processes hold", **depths)


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
