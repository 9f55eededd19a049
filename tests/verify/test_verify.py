"""Random arrays and networks: emulator == C simulation, and a verification that notices when they differ."""

from __future__ import annotations

import functools
import sys
from collections import defaultdict
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from activation_arrays import ACTIVATIONS
from array_kinds import each_kind
from changed_kernels import changed
from cluster_configs import CLUSTER
from cpp_units import exact_compiler
from effort import drawn, each_once, some_of
from hypothesis import given, settings
from hypothesis import strategies as st
from operand_kernels import WITH_ROWS
from skip_arrays import SKIPS
from two_arrays import TWO_ARRAYS

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.predicates import counted_in, predicate_of
from bfpga.contract.processes import kernel_processes
from bfpga.contract.program import BlockTensor, LaunchStep, Program
from bfpga.devices.base import Device, DeviceResult
from bfpga.devices.emulator import Emulator
from bfpga.engines.configurations import ARRAYS
from bfpga.errors import ConfigurationError, DeviceError, ToolError
from bfpga.formats.cache import cache_directory
from bfpga.synthesis.kept import packaged_figures
from bfpga.synthesis.loop_depths import loop_depths
from bfpga.verify.check import VerifyReport, random_configs, random_inputs, simulation, verify, verify_case
from bfpga.verify.orders import order_of
from bfpga.verify.random_network import random_program
from bfpga.verify.stalled import named_stalls
from bfpga.verify.virtual_boards import VirtualBoards


def kind(config: KernelConfig) -> str:
    return "mixed" if config.shift_columns else config.multiplier


KINDS = ("dsp", "dsp_packed", "shift", "mixed", "dsp_quad")
DRAWN = random_configs(40, seed=2026)
#: Numbers that have one value in all random kernels, since no key changes them, small layers do not reach them, or they
#: take several cores (tests/devices/test_streamed_pair.py).
CONSTANT = {"tensor_slots", "policy_slots", "position_stream", "skip_array.chunk", "skip_array.queue"}
#: Arrays of the slice that every test run verifies: the first of each kind.
CONFIGS = [next(config for config in DRAWN if kind(config) == wanted) for wanted in KINDS]


def test_random_kernels_have_every_kind_of_array_and_several_values_of_every_number() -> None:
    values: dict[str, set[Any]] = defaultdict(set)
    for config in random_configs(300, seed=1):
        for item in fields(config):
            if item.name != "array":
                values[item.name].add(getattr(config, item.name))
        for item in fields(config.array):
            values[f"{config.array.kind}.{item.name}"].add(getattr(config.array, item.name))
    assert {name.partition(".")[0] for name in values if "." in name} == {array.kind for array in ARRAYS}
    assert {name for name, found in values.items() if len(found) == 1} == CONSTANT



@functools.cache
def built(number: int) -> KernelConfig:
    return CONFIGS[number]


@settings(deadline=None, max_examples=drawn(36))
@given(st.integers(0, len(CONFIGS) - 1), st.integers(0, 1 << 32), st.booleans())
def test_random_networks_give_the_same_bits_on_emulator_and_c_simulation(number: int, seed: int, traced: bool) -> None:
    """Architecture 3.2; R3, R24, R26, R29, R33, R37, R38, R56, R57, R68, R74, R82 for any legal configuration.

    SM R30, SM R32, SM R33 for arrays with shift units, whose layers draw their formats of weights.
    """
    rng = np.random.default_rng(seed)
    assert verify_case(rng, built(number), simulation("csim"), VerifyReport(), traced) is None


def test_arrays_with_shift_units_agree_with_exact_integers_and_their_waivers() -> None:
    exact_compiler()
    report = verify(CONFIGS[3:4], ["csim:exact"], cases=8, seed=7)
    assert report.mismatch is None
    assert (report.cases, report.accelerators, report.targets) == (8, 1, ["csim:exact"])


@pytest.mark.parametrize("target", some_of(["csim:ap_int", "csim:exact", "csim:stalled"], "csim:stalled"))
def test_arrays_with_four_products_a_block_agree_in_every_simulation(target: str) -> None:
    """One that takes taps from adjacent columns, blocks of columns that hop, activations of all 16 values."""
    if target == "csim:exact":
        exact_compiler()
    quads = [config for config in random_configs(300, seed=1) if config.multiplier == "dsp_quad"][5:9:3]
    assert {config.format.mantissa_bits for config in quads} == {4, 5}
    assert any(config.tap_reuse for config in quads)
    assert any(0 < config.array.weight_copy_columns(config) < config.columns for config in quads)
    report = verify(quads, [target], cases=8, seed=40)
    assert report.mismatch is None
    assert (report.cases, report.accelerators) == (8, 2)


def test_random_arrays_of_every_kind_agree_on_the_virtual_board() -> None:
    """SM R30, SM R32, SM R33: overlay, driver and PYNQ between; one board runs all programs of its array."""
    pytest.importorskip("pynq")
    report = verify(CONFIGS, ["virtual", "virtual:cores=3"], cases=5, seed=6)
    assert report.mismatch is None
    assert (report.cases, report.accelerators, report.targets) == (10, 5, ["virtual", "virtual:cores=3"])


@pytest.mark.parametrize("said", ["cores=4", "cores=0", "cores", "rtl", "cores=02"])
def test_a_virtual_board_to_verify_against_has_a_number_of_cores_that_there_may_be(said: str) -> None:
    with pytest.raises(DeviceError, match="N from 1 to 3"):
        verify(CONFIGS[:1], [f"virtual:{said}"], cases=1)


@pytest.mark.parametrize(
    ("config", "target"), each_once([SKIPS, ACTIVATIONS, TWO_ARRAYS], ["csim", "csim:stalled", "virtual"])
)
def test_random_networks_agree_on_a_skip_array(config: KernelConfig, target: str) -> None:
    """Issue 16, item 1: values and work, in random orders of its processes and through PYNQ."""
    if target == "virtual":
        pytest.importorskip("pynq")
    report = verify([config], [target], cases=10, seed=16)
    assert report.mismatch is None
    assert report.cases == 10


@pytest.mark.parametrize("target", some_of(["csim:stalled", "csim:stalled:40"], "csim:stalled"))
def test_no_stages_of_pipelines_stop_a_kernel_or_change_a_bit(target: str) -> None:
    """Issue 33: random arrays of each kind, the same kernels as those of `csim`, with a draw for each network."""
    report = verify(CONFIGS, [target], cases=24, seed=33)
    assert report.mismatch is None
    assert (report.cases, report.accelerators) == (24, len(CONFIGS))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("csim:stalled:", "'' says no stages; csim:stalled:8 gives them to all loops"),
        ("csim:stalled:Array", "'Array' says no stages"),
        ("csim:stalled:8,Aray=3", "no process has a loop 'Aray'; there are Align, Array, "),
        ("csim:stalled:1001", "cannot have 1001 stages; 0 to 1000"),
        ("csim:stalled2", "no device 'csim:stalled2'"),
    ],
)
def test_stages_that_mean_nothing_are_refused_before_a_kernel_is_built(target: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        verify(CONFIGS[:1], [target], cases=1)


@pytest.mark.parametrize(
    ("name", "target"),
    each_once(
        ["tiny", "pynq_z2_zero_skip"],
        ["csim:stalled:scheduled,pauses", "csim:stalled:around", "csim:stalled:8,pauses"],
    ),
)
def test_ready_accelerators_agree_with_the_stages_of_their_schedule_and_pauses(name: str, target: str) -> None:
    """Issue 36: the figures of the package say the stages."""
    report = verify([load_accelerator(name).config], [target], cases=6, seed=36)
    assert report.mismatch is None
    assert report.cases == 6


def test_a_cluster_agrees_with_stages_and_pauses() -> None:
    """Issue 36: the array with most streams."""
    report = verify([CLUSTER], ["csim:stalled"], cases=6, seed=36)
    assert report.mismatch is None
    assert report.cases == 6


@pytest.mark.parametrize("accelerator", each_kind())
def test_a_schedule_has_stages_for_loops_of_every_process(accelerator: str, tmp_path: Path) -> None:
    """Those of the package's figures, under the names that the simulation asks for."""
    described = load_accelerator(accelerator)
    figures = packaged_figures(described)
    assert figures is not None  # else they would be made, which takes minutes
    depths = loop_depths(described, tmp_path)
    assert {name.partition(".")[0] for name in depths} == set(kernel_processes(described.config))
    for loop in figures.loops:
        assert depths[f"{loop.ip}.{loop.name}"] == loop.depth  # one iteration a cycle


def test_loops_have_the_stages_of_their_schedule() -> None:
    """Seen in what the kernel says when it stops: a stream is too small for it."""
    accelerator = load_accelerator("tiny")
    program = random_program(np.random.default_rng(3), accelerator.config)
    device: Any = simulation("csim:stalled:scheduled")(program)
    kernel = device.kernel.kernel
    kernel.hold({"parameters": 1})
    with pytest.raises(DeviceError) as stopped:
        device.run(random_inputs(np.random.default_rng(3), program))
    depths = loop_depths(accelerator, cache_directory("synthesis"))
    for process, loop in (("weights", "Weights"), ("post", "Rows"), ("array", "Array")):
        assert f"`{process}` in loop `{loop}` of {depths[f'{process}.{loop}']} stages" in str(stopped.value)
    assert str(stopped.value).endswith("(csim:stalled:scheduled)")


def test_a_kernel_without_figures_needs_the_packages_of_the_synthesis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bfpga.synthesis.driver", None)
    program = random_program(np.random.default_rng(0), CONFIGS[0])
    with pytest.raises(ToolError, match=r"random, which has no figures; .* pip install 'bfpga\[synthesis\]'"):
        simulation("csim:stalled:scheduled")(program)


@pytest.mark.parametrize(
    ("target", "again"),
    [
        ("csim:stalled", "csim:stalled:seed=7"),
        ("csim:stalled:seed=5", "csim:stalled:seed=5"),
        ("csim:stalled:pauses=0", "csim:stalled:seed=7,pauses=0"),
        ("csim:stalled:8", "csim:stalled:8"),
        ("csim:stalled:Array=8,pauses", "csim:stalled:Array=8,pauses=7"),
        ("csim:stalled:scheduled", "csim:stalled:scheduled"),
        ("csim:stalled:scheduled,post.Rows=9,pauses=4", "csim:stalled:scheduled,post.Rows=9,pauses=4"),
        ("csim:stalled:around", "csim:stalled:around,seed=7"),
    ],
)
def test_the_name_of_a_device_says_what_is_drawn_and_repeats_it(target: str, again: str) -> None:
    drawn_for = named_stalls(target).seed or 7  # the number of a program where none is named
    assert named_stalls(target).name(drawn_for) == again
    assert named_stalls(again).name(drawn_for) == again
    assert named_stalls(again).pauses_from(drawn_for) == named_stalls(target).pauses_from(drawn_for)


def test_a_kernel_that_stops_says_the_stages_that_repeat_it() -> None:
    program = random_program(np.random.default_rng(0), replace(CONFIGS[0], compressed_maps=False))
    for target, again in (("csim:stalled:post.Rows=3,8", "post.Rows=3,8"), ("csim:stalled:seed=71", "seed=71")):
        device: Any = simulation(target)(program)
        with pytest.raises(DeviceError, match=rf"is empty: .* \(csim:stalled:{again}\)"):
            device.kernel.kernel.run_packet(1, b"")
        device.close()
        with pytest.raises(DeviceError, match="only an open kernel has loops"):
            device.kernel.kernel.stall(1)


def test_half_of_the_programs_meet_a_random_order_which_a_repeated_case_has_again() -> None:
    """Issue 14: random back-pressure and random order of streams and processes."""
    cases = [(seed, CONFIGS[seed % len(CONFIGS)]) for seed in range(24)]
    first, again = (
        [order_of(random_program(np.random.default_rng(seed), config)) for seed, config in cases] for _ in (0, 1)
    )
    assert first == again
    assert 6 <= first.count(0) <= 18
    assert len(set(first)) == 1 + sum(map(bool, first))


def test_the_virtual_board_meets_orders_too_and_is_released_after_a_verification() -> None:
    pytest.importorskip("pynq")
    boards = VirtualBoards()
    programs = [random_program(np.random.default_rng(seed), CONFIGS[0]) for seed in range(8)]
    programs = [next(p for p in programs if not order_of(p)), next(p for p in programs if order_of(p))]
    boards.open(programs[0])
    overlay: Any = boards._overlay
    (slave,) = overlay.target.board.fabric.kernels
    for program in programs:
        device = boards.open(program)
        assert boards._overlay is overlay  # another program of the same array: the same board
        pieces = {slave.kernel._pieces() for _ in range(50)}
        assert (len(pieces) > 1) == bool(order_of(program))
        device.close()
    boards.close()
    with pytest.raises(DeviceError, match="not loaded"):
        overlay.kernel()


def test_without_pynq_the_virtual_board_is_refused_before_the_first_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynq", None)
    done: list[VerifyReport] = []
    with pytest.raises(DeviceError, match=r"bfpga\[board\]"):
        verify(CONFIGS[:1], ["csim", "virtual"], cases=1, progress=done.append)
    assert not done


class OneBitOff:
    """An emulator with one wrong bit in one tensor, or one clock too many."""

    name = "one bit off"

    def __init__(self, program: Program, fault: str) -> None:
        self.emulator = Emulator(program)
        self.fault = fault

    def run(self, inputs: dict[str, np.ndarray], *, trace: bool = False) -> DeviceResult:
        result = self.emulator.run(inputs, trace=True)
        name = next(iter(result.tensors))
        tensor = result.tensors[name]
        if self.fault == "mantissa":
            mantissa = tensor.mantissa.copy()
            mantissa.flat[-1] ^= 1
            result.tensors[name] = BlockTensor(mantissa, tensor.exponent)
        elif self.fault == "exponent":
            result.tensors[name] = BlockTensor(tensor.mantissa, tensor.exponent + 1)
        elif self.fault == "cycles":
            result.layers[0].cycles += 1
        else:
            counters = result.layers[0].counters
            assert counters is not None
            counters.overflows += 1
        return result

    def reset(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("fault", ["mantissa", "exponent", "cycles", "counters"])
def test_one_wrong_bit_ends_the_verification_with_its_place_and_seed(fault: str) -> None:
    def faulty(target: str) -> object:
        def open_program(program: Program) -> Device:
            return OneBitOff(program, fault)

        return open_program

    report = verify(CONFIGS[:1], ["csim"], cases=5, seed=9, device_for=faulty)  # type: ignore[arg-type]
    assert report.mismatch is not None
    assert report.mismatch.kind == fault
    assert report.cases == 1
    assert report.seed == (9, 0)


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"abacus.*csim"):
        verify(CONFIGS[:1], ["abacus"], cases=1)


#: Flags of a descriptor, and numbers that stand between them.
FLAGS = [flag for flag in Flag if flag]


def test_random_networks_reach_every_corner_of_the_schedule() -> None:
    """What is never drawn is never verified: tiles, spills, streamed weights, measurements, conflicts of banks."""
    wanted = {operation.name for operation in Operation} - {"NONE", "ZERO_SKIP", "SPARSE"}  # no kernel has these two
    wanted |= {str(flag.name) for flag in FLAGS}
    wanted |= {"counts", "is skipped", "read_runs", "write_runs", "spilled", "tiles"}
    keeps = KernelConfig(columns=12, rows=8, lanes=4, wide_memory=True)
    drawn = random_configs(40, seed=1)
    # Windows slide where an array reads more than it multiplies, which is rare.
    slides = changed(SKIPS, columns=2, lanes=4, array_groups=16, array_chunk=256, activation_words=1024)
    rare = [keeps, SKIPS, ACTIVATIONS, TWO_ARRAYS, slides, CLUSTER, WITH_ROWS]
    for number, config in enumerate([*rare, *drawn]):
        for seed in range(4 if number >= len(rare) else 60 if config is slides else 16):
            program = random_program(np.random.default_rng([number, seed]), config)
            for step in program.steps:
                assert isinstance(step, LaunchStep)
                for operation in step.operations:
                    descriptor = operation.descriptor
                    wanted.discard(Operation(descriptor.operation).name)
                    wanted -= {str(flag.name) for flag in FLAGS if descriptor.flags & flag}
                    wanted -= {"counts"} if counted_in(descriptor) else set()
                    wanted -= {"is skipped"} if predicate_of(descriptor) else set()
                    wanted -= {name for name in ("read_runs", "write_runs") if getattr(descriptor, name)}
            wanted -= {"spilled"} if len(program.steps) > 1 else set()
            wanted -= {"tiles"} if any(len(getattr(node, "tiles", ())) > 1 for node in program.nodes) else set()
            if not wanted:
                return
    pytest.fail(f"never drawn: {wanted}")


def test_kernels_that_keep_accumulators_in_memory_are_drawn_and_do() -> None:
    """STORE_WIDE and LOAD_WIDE of issue 14: a few percent of the networks move accumulators."""
    kernels = random_configs(120)
    keeping = [config for config in kernels if config.wide_memory]
    assert len(keeping) >= 0.05 * len(kernels)
    programs = [random_program(np.random.default_rng(seed), config) for config in keeping[:4] for seed in range(8)]
    launches = [step for program in programs for step in program.steps if isinstance(step, LaunchStep)]
    assert sum(any(each.descriptor.flags & Flag.WIDE for each in step.operations) for step in launches) >= 8


@pytest.mark.slow
def test_ready_accelerators_agree_with_exact_integers() -> None:
    """The smallest, and one with a skip array beside its systolic array."""
    exact_compiler()
    names = ("tiny", "zcu104_hetero")
    report = verify([load_accelerator(name).config for name in names], ["csim:exact"], cases=6, seed=1)
    assert report.mismatch is None
    assert report.accelerators == len(names)
