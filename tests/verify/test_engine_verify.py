"""Kernels of several engines: emulator, a kernel of plain integers, C simulation and virtual board agree."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from array_layers import PlainKernel
from cpp_units import exact_compiler
from hypothesis import given, settings
from hypothesis import strategies as st

from bfpga.accelerator.constraints import config_findings
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation
from bfpga.contract.program import ArrayNode, LaunchStep, Program
from bfpga.devices.base import Device
from bfpga.devices.kernel_device import KernelDevice
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.verify.check import VerifyReport, random_configs, simulation, verify, verify_case
from bfpga.verify.random_network import random_program
from bfpga.verify.random_zeros import pruned, with_zeros

DRAWN = [config for config in random_configs(60, seed=2027) if len(config.engines) > 1]


def both(config: SystolicConfig) -> bool:
    return len(config.beside) == 2


#: Arrays that every test run builds: 8 bits with blocks of 3 x 3, 9 to 16 bits, an even kernel.
ARRAYS = [
    next(c for c in DRAWN if both(c) and c.multiplier == "dsp_packed" and c.numbers_of(ClusterNumbers).kernel == 3),
    next(c for c in DRAWN if both(c) and c.format.mantissa_bits > 8 and c.lanes == 2),
    next(c for c in DRAWN if ClusterNumbers.engine in c.engines and c.numbers_of(ClusterNumbers).kernel == 2),
]


def on_plain_integers(program: Program) -> Device:
    return KernelDevice(program, PlainKernel(program.config), "plain integers")


@settings(deadline=None, max_examples=20)
@given(st.integers(0, len(DRAWN) - 1), st.integers(0, 1 << 32))
def test_networks_across_engines_give_the_same_bits_and_clocks_in_plain_integers(number: int, seed: int) -> None:
    """SC R5, R34, R152; ZS R15, R50: units, pieces, tiles and orders as the contract has them, counted step by step."""
    rng = np.random.default_rng(seed)
    assert verify_case(rng, DRAWN[number], on_plain_integers, VerifyReport(), traced=True) is None


@settings(deadline=None, max_examples=40)
@given(st.integers(0, len(ARRAYS) - 1), st.integers(0, 1 << 32), st.booleans())
def test_networks_across_engines_give_the_same_bits_and_clocks_in_c_simulation(
    number: int, seed: int, traced: bool
) -> None:
    """SC R5, R34, R152; ZS R15, R50."""
    rng = np.random.default_rng(seed)
    assert verify_case(rng, ARRAYS[number], simulation("csim"), VerifyReport(), traced) is None


def test_networks_across_engines_agree_with_ap_int_too() -> None:
    """SC R152; ZS R50."""
    report = verify(ARRAYS[:1], ["csim:ap_int"], cases=12, seed=3)
    assert report.mismatch is None
    assert set(report.engine_layers) == {"zero_skip", "sparse_cluster"}


def test_networks_across_engines_agree_with_exact_integers_and_their_waivers() -> None:
    """SC R152; ZS R50."""
    exact_compiler()
    report = verify(ARRAYS[:1], ["csim:exact"], cases=8, seed=5)
    assert report.mismatch is None
    assert set(report.engine_layers) == {"zero_skip", "sparse_cluster"}


def test_networks_across_engines_agree_on_the_virtual_board() -> None:
    """SC R5, R152; ZS R50: overlay, driver and PYNQ between."""
    pytest.importorskip("pynq")
    report = verify(ARRAYS, ["virtual"], cases=18, seed=4)
    assert report.mismatch is None
    assert set(report.engine_layers) == {"zero_skip", "sparse_cluster"}


def test_random_engines_have_every_number_of_the_contract() -> None:
    """What is never drawn is never verified. SC R154."""
    drawn = random_configs(200, seed=8)
    assert not [finding for config in drawn for finding in config_findings(config)]
    clusters = [config.numbers_of(ClusterNumbers) for config in drawn if ClusterNumbers.engine in config.engines]
    tiles = [config.numbers_of(ZeroSkipNumbers) for config in drawn if ZeroSkipNumbers.engine in config.engines]
    assert {1, 2, 3, 4, 5} == {build.kernel for build in clusters}
    assert {1, 2, 3, 4, 5} == {build.kernel_height for build in tiles} == {build.kernel_width for build in tiles}
    assert {1, 2, 4, 8, 16} <= {build.load_pixels for build in clusters} & {build.load_pixels for build in tiles}
    assert max(build.kernels_in_flight for build in clusters) == 64
    assert max(build.kernels_in_flight for build in tiles) >= 252
    assert {"dsp", "dsp_packed", "lut"} == {build.multiplier for build in tiles}
    assert {1, 2} <= {build.rows_parallel for build in tiles}
    assert any(both(config) for config in drawn)
    assert any(config.shift_columns and len(config.engines) > 1 for config in drawn)
    assert any(config.format.mantissa_bits == 16 and len(config.engines) > 1 for config in drawn)
    assert sum(len(config.engines) == 1 for config in drawn) > 40


def engine_operations(program: Program) -> Iterator[tuple[ArrayNode, Descriptor, bytes]]:
    """Operations of the engines beside the array, each with its layer and its bytes on the weight stream."""
    nodes = {node.name: node for node in program.nodes if isinstance(node, ArrayNode)}
    for step in program.steps:
        assert isinstance(step, LaunchStep)
        for operation in step.operations:
            if operation.descriptor.operation in (Operation.ZERO_SKIP, Operation.SPARSE):
                yield nodes[operation.layer], operation.descriptor, operation.weights


def corners(config: SystolicConfig, program: Program) -> Iterator[str]:
    """What a program makes the engines do."""
    engine_of = {node.output: node.engine for node in program.nodes if isinstance(node, ArrayNode)}
    for node, d, weights in engine_operations(program):
        name = node.engine
        yield name
        yield f"{name} policy {d.policy}"
        yield f"{name} behind {engine_of.get(node.inputs[0], 'a load')}"
        flags = {"measure": Flag.MEASURE, "bias": Flag.BIAS, "function first": Flag.FUNCTION_FIRST}
        conditions = {name: bool(d.flags & flag) for name, flag in flags.items()} | {
            "without weights": int.from_bytes(weights[:4], "little") >> 25 == 1,
            "several groups of kernels": d.blocks > 1,
            "several parts": len(node.tiles) > 1,
            "part of a concatenation": node.channel_offset > 0,
            "groups of channels": node.groups > 1,
            "depthwise": node.groups == node.channels > 1,
            "stride": max(d.stride_y, d.stride_x) > 1,
            "padding": d.pad_top > 0 and d.pad_left > 0,
            "a kernel that is not square": d.kernel_height != d.kernel_width,
            "fully connected": d.input_height == d.input_width == d.output_pixels == 1,
            "rows that collide": d.write_slots > 1,
            "equal pieces": d.count_step == 0,
            "some channel words counted": d.count_step > 1,
            f"order {d.entry_order}": name == "zero_skip",
            "two-hot layers beside": any(getattr(other, "weight_format", "") == "two_hot" for other in program.nodes),
        }
        yield from (f"{name} {what}" for what, true in conditions.items() if true)


#: What both engines are to be made to do; what only one of them can.
COMMON_CORNERS = (
    "measure", "bias", "function first", "without weights", "several groups of kernels", "several parts",
    "part of a concatenation", "groups of channels", "depthwise", "stride", "padding",
    "a kernel that is not square", "fully connected", "behind a load", "behind systolic_array", "behind zero_skip",
    "behind sparse_cluster", "policy 0", "policy 1", "policy 3", "policy 4", "two-hot layers beside",
)  # fmt: skip
OWN_CORNERS = (
    "zero_skip order 0", "zero_skip order 1", "zero_skip order 2", "sparse_cluster equal pieces",
    "sparse_cluster some channel words counted", "sparse_cluster rows that collide",
)  # fmt: skip


def test_random_networks_reach_every_corner_of_the_engines() -> None:
    """What is never drawn is never verified."""
    missing = {f"{engine} {what}" for engine in ("zero_skip", "sparse_cluster") for what in COMMON_CORNERS}
    missing |= set(OWN_CORNERS)
    for seed, number in itertools.product(range(20), range(len(DRAWN))):
        config = DRAWN[number]
        missing -= set(corners(config, random_program(np.random.default_rng([number, seed]), config)))
        if not missing:
            return
    pytest.fail(f"never drawn: {sorted(missing)}")


def test_pruned_weights_and_maps_have_parts_of_zeros() -> None:
    rng = np.random.default_rng(1)
    weights = [pruned(rng, np.ones((6, 3, 3, 8), np.int32)) for _ in range(200)]
    assert any(not array.any() for array in weights)
    assert any(array.all() for array in weights)
    assert any((~array.any(axis=(1, 2, 3))).any() and array.mean() > 0.3 for array in weights)
    assert any((~array.any(axis=(0, 1, 2))).any() and array.mean() > 0.3 for array in weights)
    maps = [with_zeros(rng, np.ones((2, 4, 9, 9))) for _ in range(200)]
    assert any(not x[0].any() and x[1].any() for x in maps)
    assert any(x.all() for x in maps)
    assert any(0 < x.mean() < 0.1 for x in maps)
