"""Random arrays that validate: any format, shape and memory size, small enough that layers are tiled and spilled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bfpga.accelerator.constraints import config_findings
from bfpga.contract.arrays.skip_array import SkipArray, SparseArray, TwoArrays
from bfpga.contract.arrays.sparse_cluster import ClusterForm, ClusterVariant, SparseCluster
from bfpga.contract.arrays.systolic import SystolicArray
from bfpga.contract.arrays.zero_skip_tile import ZeroSkipTile
from bfpga.contract.configuration import ULTRA_MEMORIES, KernelConfig, UltraRam
from bfpga.contract.functions import Function
from bfpga.contract.rows import MANTISSA_BITS
from bfpga.engines.kernel.constraints import WIDE_WORDS
from bfpga.engines.systolic.constraints import QUAD_BITS
from bfpga.engines.systolic.shift_words import with_zero
from bfpga.formats.block_format import BlockFormat
from bfpga.formats.shift_format import ShiftFormat

Generator = np.random.Generator


def random_format(rng: Generator, packed: bool, widest: int) -> BlockFormat:
    """A block format that validates; packed multipliers take mantissas of 8 bits at most."""
    return BlockFormat(
        mantissa_bits=int(rng.integers(4, 9 if packed else widest + 1)),
        exponent_bits=int(rng.integers(5, 13)),
        rounding=str(rng.choice(["trunc", "tozero", "half_up", "half_away", "rne", "rne", "rne"])),  # type: ignore[arg-type]
        saturation=str(rng.choice(["sym", "sym", "full", "wrap"])),  # type: ignore[arg-type]
        log=str(rng.choice(["floor", "floor", "ceil"])),  # type: ignore[arg-type]
    )


def random_shift(rng: Generator, mantissa_bits: int) -> ShiftFormat:
    """Words of shift units that validate."""
    exp_width = int(rng.choice([1, 2, 3, 3, 3, 4]))
    return with_zero(
        ShiftFormat(
            x_width=mantissa_bits,
            exp_width=exp_width,
            d=int(rng.choice([0, 0, 1, 2, 4])),
            base_log2=1 if exp_width == 4 else int(rng.choice([1, 1, 2])),
            zero_code=str(rng.choice(["neg_min", "exp_max", "flag"])),  # type: ignore[arg-type]
            sign_mode=str(rng.choice(["relative", "absolute"])),  # type: ignore[arg-type]
        )
    )


def random_config(rng: Generator) -> KernelConfig:
    """A small array of any legal shape, with memories small enough that layers are tiled and spilled."""
    config = random_array(rng)
    config = replace(config, functions=random_functions(rng, config.accumulator_bits))
    config = with_kept_words(rng, config)
    multiplies = config.multiplier != "shift" and not config.shift_columns
    config = with_skip_array(rng, config) if multiplies else config
    config = with_ultra_ram(rng, with_count_registers(rng, config))
    config = with_rows(rng, with_compressed_maps(rng, config))
    config = with_program_memory(rng, with_slices(rng, with_tables(rng, with_operand_weights(config))))
    return with_static_exponents(rng, with_residual_adds(rng, with_four_products(rng, config)))


def with_four_products(rng: Generator, config: KernelConfig) -> KernelConfig:
    """With four products a DSP block in one of four kernels whose array multiplies; all else is drawn as without them.

    Columns are even then, and those that share a copy of the weights; what does not go with so few bits is left out.
    """
    own = rng.spawn(1)[0]
    if own.random() > 1 / 4 or config.array.kind != SystolicArray.kind or config.shift is not None:
        return config
    columns = 2 * int(own.integers(1, 8))
    hops = [0, *(count for count in range(2, columns + 1, 2) if columns % count == 0)]
    quad = replace(
        config, format=replace(config.format, mantissa_bits=int(own.choice(QUAD_BITS))), multiplier="dsp_quad",
        columns=columns,
        array=SystolicArray(int(own.choice(hops))), wide_memory=False, row_columns=0, operand_weights=False,
        post_columns=int(own.choice([0, 1, columns // 2])),
    )  # fmt: skip
    quad = with_operand_weights(quad)
    return config if config_findings(quad) else quad


def random_row_config(rng: Generator) -> KernelConfig:
    """The same of a kernel with a process of rows."""
    while True:
        config = with_kept_words(rng, random_array(rng))
        config = replace(config, format=replace(config.format, mantissa_bits=MANTISSA_BITS, saturation="sym"))
        config = replace(config, functions=random_functions(rng, config.accumulator_bits))
        config = with_compressed_maps(rng, config)
        if not config_findings(config) and (with_process := with_rows(rng, config)).has_rows:
            with_process = with_slices(rng, with_tables(rng, with_operand_weights(with_process)))
            return with_static_exponents(rng, with_residual_adds(rng, with_program_memory(rng, with_process)))


def with_rows(rng: Generator, config: KernelConfig) -> KernelConfig:
    """With a process of rows of all columns or of some, if the kernel may have one: few may."""
    if list(config_findings(replace(config, row_columns=1))):
        return config
    return replace(config, row_columns=int(rng.integers(1, config.columns + 1)))


def with_operand_weights(config: KernelConfig) -> KernelConfig:
    """With tensors that become weights, if the kernel may have them: those with more rows than columns may not."""
    multiplying = replace(config, operand_weights=True)
    return config if list(config_findings(multiplying)) else multiplying


def with_residual_adds(rng: Generator, config: KernelConfig) -> KernelConfig:
    """With products that add tensors, in one of two kernels that may; all else is drawn as without them."""
    own = rng.spawn(1)[0]
    adding = replace(config, residual_adds=True)
    return config if own.random() > 1 / 2 or config_findings(adding) else adding


def with_static_exponents(rng: Generator, config: KernelConfig) -> KernelConfig:
    """With static exponents alone, in one of five kernels; all else is drawn as without them."""
    own = rng.spawn(1)[0]
    static = replace(config, static_exponents=True, position_bins=0, wide_words=0, wide_memory=False)
    return config if own.random() > 1 / 5 or config_findings(static) else static


def with_tables(rng: Generator, config: KernelConfig) -> KernelConfig:
    """With tables of functions that are loaded, in one of three kernels; all else is drawn as without them."""
    own = rng.spawn(1)[0]
    if own.random() > 1 / 3:
        return config
    loading = replace(config, function_tables=int(own.integers(1, 4)))
    return config if config_findings(loading) else loading


def with_slices(rng: Generator, config: KernelConfig) -> KernelConfig:
    """With fewer columns at once in the output stage, in one of two kernels that may; else is drawn as without them."""
    own = rng.spawn(1)[0]
    fewer = [count for count in range(1, config.columns) if config.columns % count == 0]
    if not fewer or own.random() > 1 / 2:
        return config
    slicing = replace(config, post_columns=int(own.choice(fewer)))
    return config if config_findings(slicing) else slicing


def with_kept_words(rng: Generator, config: KernelConfig) -> KernelConfig:
    """With columns that share a copy of the weights, and with a memory that takes accumulators where it can.

    There is no buffer then that would keep those of most layers, or a small one.
    """
    columns = config.columns
    hops = [0, *(count for count in range(1, columns + 1) if columns % count == 0)]
    config = replace(config, array=SystolicArray(int(rng.choice(hops))))
    small = config.wide_words if config.wide_words <= WIDE_WORDS else 0
    keeping = replace(config, wide_memory=True, wide_words=small)
    return config if config_findings(keeping) else keeping


def with_skip_array(rng: Generator, config: KernelConfig) -> KernelConfig:
    """A kernel with a skip array of one of both sources, a cluster or a tile, in the place of its array."""
    kind = rng.random()
    if kind < 1 / 3:
        return config
    packed = replace(config.format, mantissa_bits=min(config.format.mantissa_bits, int(rng.integers(4, 9))))
    skipping = replace(config, format=packed, multiplier="dsp_packed", wide_memory=False)
    if kind < 5 / 9:
        skipping = with_random_tile(rng, skipping) if kind < 7 / 18 else with_cluster(rng, skipping)
    else:
        skipping = skipping_weights(rng, skipping) if kind < 7 / 9 else skipping_activations(rng, skipping)
    return skipping if not config_findings(skipping) else config


def skipping_weights(rng: Generator, config: KernelConfig) -> KernelConfig:
    """With a skip array that multiplies by stored weights."""
    rows = config.lanes * int(rng.choice([1, 4, 11]))
    columns = 2 * int(rng.integers(1, 7))
    return replace(config, columns=columns, rows=rows, array=SkipArray(int(rng.integers(1, 9)), chunk=64, queue=16))


def skipping_activations(rng: Generator, config: KernelConfig) -> KernelConfig:
    """With a skip array that multiplies by activations, now and then in parallel with a systolic array."""
    columns, rows = int(rng.integers(1, 7)), config.lanes * int(rng.choice([2, 4, 6]))
    chunk, passes = int(rng.choice([16, 64])), int(rng.choice([1, 2, 4, 16]))
    queue, both = int(rng.choice([4, 16])), bool(rng.random() < 0.4)
    array = (TwoArrays if both else SparseArray)(chunk=chunk, queue=queue, passes=passes)
    return replace(config, columns=columns, rows=rows, array=array)


def with_cluster(rng: Generator, config: KernelConfig) -> KernelConfig:
    """With a sparse cluster of few units in the place of the array."""
    down, across, columns = int(rng.integers(1, 3)), int(rng.integers(2, 4)), int(rng.integers(1, 7))
    kernel, lines = int(rng.choice([2, 3, 3])), int(rng.choice([8, 16]))
    variants: tuple[ClusterVariant, ...] = ("A", "B", "C", "D", "E")
    forms: tuple[ClusterForm, ...] = ("overlap_add", "halo")
    variant = variants[int(rng.integers(len(variants)))]
    weights = 2 if variant in ("C", "D") else 1
    rows = int(rng.choice([4, 8]))
    array = SparseCluster(
        kernel=kernel, rows=down, columns=across, words=int(rng.choice([16, 64])), queue=int(rng.choice([16, 64])),
        map_lines=lines, map_blocks=int(rng.choice([32, 64])), threshold=int(rng.choice([0, 3, 20])),
        moves=int(rng.choice([0, 2, 256])), variant=variant,
        lanes=int(rng.integers(1, kernel * kernel // weights + 1)) * weights, form=forms[int(rng.integers(len(forms)))],
    )  # fmt: skip
    return replace(config, columns=columns, rows=rows, wide_words=0, array=array)


def with_random_tile(rng: Generator, config: KernelConfig) -> KernelConfig:
    """With a small tile in the place of the array."""
    kernel, columns = int(rng.choice([2, 3, 3])), int(rng.integers(1, 7))
    parallel = kernel * int(rng.integers(1, 3))
    tile = parallel * int(rng.integers(2, 4)), kernel * int(rng.integers(2, 5))
    array = ZeroSkipTile(kernel=kernel, rows=tile[0], columns=tile[1], parallel=parallel)
    return replace(config, columns=columns, rows=int(rng.choice([4, 8])), wide_words=0, array=array)


def with_count_registers(rng: Generator, config: KernelConfig) -> KernelConfig:
    """Registers by which layers choose between two ways, in one of two kernels that may have them."""
    if rng.random() < 0.5:
        return config
    counting = replace(config, count_registers=int(rng.integers(1, 5)))
    return counting if not config_findings(counting) else config


def with_ultra_ram(rng: Generator, config: KernelConfig) -> KernelConfig:
    """Memories of UltraRAM, each in one of four kernels that may have them."""
    drawn: tuple[UltraRam, ...] = tuple(name for name in ULTRA_MEMORIES if rng.random() < 0.25)
    return replace(config, ultra_ram=drawn)


def with_compressed_maps(rng: Generator, config: KernelConfig) -> KernelConfig:
    """Tensors may cross the streams without their zeros in one of three kernels that can."""
    if rng.random() > 1 / 3:
        return config
    packing = replace(config, compressed_maps=True)
    return config if config_findings(packing) else packing


def with_program_memory(rng: Generator, config: KernelConfig) -> KernelConfig:
    """Descriptors stay on the chip in one of three kernels that can: few ones, so that some programs are too long."""
    # Of a generator of its own: all that is drawn behind it is what it was.
    own = rng.spawn(1)[0]
    if own.random() > 1 / 3:
        return config
    keeping = replace(config, program_descriptors=int(own.choice([8, 32, 200])))
    return config if config_findings(keeping) else keeping


def random_functions(rng: Generator, accumulator_bits: int) -> tuple[str, ...]:
    """Functions that accumulators of so many bits hold: all of them, or each with a chance of one half."""
    possible = [function for function in Function if function.row.least_accumulator_bits <= accumulator_bits]
    whole = rng.random() < 0.5
    drawn = rng.random(len(possible)) < 0.5
    kept = (function.key for function, chosen in zip(possible, drawn, strict=True) if whole or chosen)
    return tuple(dict.fromkeys((Function.NONE.key, *kept)))


def random_array(rng: Generator) -> KernelConfig:
    """A systolic array."""
    kind = str(rng.choice(["dsp", "dsp_packed", "shift", "mixed"], p=[0.3, 0.3, 0.2, 0.2]))
    packed = kind == "dsp_packed" or (kind == "mixed" and rng.random() < 0.7)
    block_format = random_format(rng, packed, 16 if kind in ("shift", "mixed") else 18)
    shift = random_shift(rng, block_format.mantissa_bits) if kind in ("shift", "mixed") else None
    shift_columns = int(rng.integers(1, 6)) if kind == "mixed" else 0
    lanes = int(rng.choice([1, 2, 2, 2, 4]))
    rows = int(rng.choice([4, 8, 16]))
    accumulator = 2 * block_format.mantissa_bits + int(rng.integers(10, 18))
    container = block_format.container_bits
    stream_bits = int(rng.choice([width for width in (32, 64, 128) if width >= lanes * container]))
    return KernelConfig(
        format=block_format,
        columns=int(rng.choice([1, 2, 3, 5, 6, 7, 12])) + shift_columns,
        rows=rows,
        lanes=lanes,
        multiplier="shift" if kind == "shift" else "dsp_packed" if packed else "dsp",
        dsp="DSP48E1" if rng.random() < 0.5 else "DSP48E2",
        accumulator_bits=min(56, max(24, accumulator)),
        bias_bits=int(rng.integers(8, 24)),
        activation_words=int(rng.choice([64, 256, 1024])),
        weight_words=int(rng.choice([64, 256, 1024])),
        parameter_rows=int(rng.choice([64, 256])),
        stream_bits=stream_bits,
        weight_stream_bits=int(rng.choice([64, 128])),
        shift_columns=shift_columns,
        shift=shift,
        position_bins=int(rng.choice([0, 8, 11, 32, 64])),
        wide_words=int(rng.choice([0, 64, 512])),
    )
