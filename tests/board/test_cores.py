"""Several cores of one overlay on the virtual board: the bits of one core, whatever a core does; nothing is lost."""

from __future__ import annotations

import itertools
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from board_fixtures import CASES, SAMPLES, compiled_program, expected, overlay_directory
from board_targets import STALL_READS, open_case, same, target_of

from bfpga.board.load import BoardOverlay
from bfpga.board.local import VirtualTarget
from bfpga.board.overlays import load_overlay
from bfpga.board.virtual.board import VirtualBoard
from bfpga.board.virtual.compiled_kernel import CompiledKernel, kernel_from_description
from bfpga.board.virtual.faults import CorruptedTransfer, DmaError, Fault, KernelNeverDone
from bfpga.devices.cores import CoresDevice
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.errors import CoreWarning, DataError, DeviceError, ProgramError

THREE, LENET = "digits_three_cores", "lenet_three_cores"


@contextmanager
def opened(case: str, target: str = "virtual", **options: Any) -> Iterator[tuple[BoardOverlay, CoresDevice]]:
    """An overlay with the program of a case on all of its cores."""
    with open_case(case, target, **options) as overlay:
        device = overlay.open(compiled_program(case))
        assert isinstance(device, CoresDevice)
        yield overlay, device


def inject(overlay: BoardOverlay, *faults: Fault) -> None:
    overlay.target.board.faults.inject(*faults)  # type: ignore[attr-defined]


def delay(overlay: BoardOverlay, core: int, seconds: float) -> None:
    """A core takes longer for every start."""
    waiter = overlay.cores[core].waiter
    wait = waiter.wait

    def slowly(*arguments: Any) -> None:
        time.sleep(seconds)
        wait(*arguments)

    waiter.wait = slowly  # type: ignore[method-assign]


def run_with_warning(device: CoresDevice, case: str, samples: int, said: str) -> list[int]:
    """A run in which one core fails: the bits of the emulator and one line; the samples of each core."""
    reference = expected(case, samples)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = device.run(reference.inputs)
    lines = [str(item.message) for item in caught if item.category is CoreWarning]
    assert len(lines) == 1
    assert "\n" not in lines[0]
    assert said in lines[0]
    assert same(result, reference)
    shares = [core.samples for core in result.cores]
    assert sum(shares) == samples
    return shares


# The same bits in the same order


@pytest.mark.parametrize(("case", "samples"), [(THREE, SAMPLES), (LENET, 9)])
def test_samples_are_shared_and_every_bit_is_that_of_the_emulator(case: str, samples: int) -> None:
    with opened(case) as (_, device):
        reference = expected(case, samples)
        result = device.run(reference.inputs)
        assert same(result, reference)
        assert result.samples == samples
        assert len(result.cores) == CASES[case].cores
        assert all(core.samples and core.in_service for core in result.cores)
        assert sum(core.samples for core in result.cores) == samples
        # Clocks are counted on every core; together they are those of one, and every sample takes as many.
        assert result.cycles * SAMPLES == reference.cycles * samples


def test_no_order_of_processes_and_streams_changes_a_bit() -> None:
    """Kernels disturbed each in its own way, logic in a thread of its own, a cache that writes back at any time."""
    seeds = itertools.count(100)

    def disturbed(description: Mapping[str, Any]) -> CompiledKernel:
        kernel = kernel_from_description(description)
        kernel.disturb(next(seeds))
        return kernel

    files = load_overlay(overlay_directory("tiny", 3))
    board = VirtualBoard("zynq7", stall_reads=STALL_READS, threaded=True, eviction_seed=1)
    assert files.manifest.board.processing_system == "zynq7"
    with board, BoardOverlay(files, VirtualTarget("zynq7", board, disturbed)) as overlay:
        device = overlay.open(compiled_program(THREE))
        reference = expected(THREE, 60)
        result = device.run(reference.inputs)
    assert next(seeds) >= 103
    assert same(result, reference)
    assert all(core.samples for core in result.cores)


@pytest.mark.parametrize(("target", "options"), [("virtual", {"wait": "interrupt"}), ("virtual:remote", {})])
def test_interrupts_and_remote_boards_serve_several_cores(target: str, options: dict[str, str]) -> None:
    with opened(THREE, target, **options) as (_, device):
        reference = expected(THREE, 40)
        assert same(device.run(reference.inputs), reference)


def test_kernels_run_in_one_thread_whichever_core_lets_the_board_run() -> None:
    """A compiled kernel that is suspended keeps addresses of its thread."""
    threads, callers = set(), set()

    def watched(description: Mapping[str, Any]) -> CompiledKernel:
        kernel = kernel_from_description(description)
        library: Any = kernel._library
        resume, step = library.bfpga_resume, kernel.step

        def note(*arguments: Any) -> Any:
            threads.add(threading.get_ident())
            return resume(*arguments)

        def note_caller(streams: Any) -> bool:
            callers.add(threading.get_ident())
            return step(streams)

        library.bfpga_resume, kernel.step = note, note_caller  # type: ignore[method-assign]
        return kernel

    target = target_of("virtual", "zynq7")
    target.device._kernels = watched
    with BoardOverlay(load_overlay(overlay_directory("tiny", 3)), target) as overlay:
        reference = expected(THREE, 40)
        assert same(overlay.open(compiled_program(THREE)).run(reference.inputs), reference)
    assert len(callers) > len(threads) == 1


def test_traced_tensors_are_in_the_order_of_the_samples() -> None:
    with opened(THREE) as (_, device):
        reference = expected(THREE, 12)
        whole = device.run(reference.inputs, trace=True)
        single = device.run({name: value[7:8] for name, value in reference.inputs.items()}, trace=True)
        for name, tensor in single.tensors.items():
            rows = len(tensor.mantissa)
            np.testing.assert_array_equal(whole.tensors[name].mantissa[7 * rows : 8 * rows], tensor.mantissa)


# Cores that fail


def test_core_that_hangs_is_taken_out_and_its_samples_are_computed_by_the_others() -> None:
    with opened(THREE) as (overlay, device):
        inject(overlay, KernelNeverDone(kernel="accelerator_2", sticky=True, after=1))
        for other in (0, 1):
            delay(overlay, other, 0.1)  # so that this core has its turn
        shares = run_with_warning(device, THREE, 40, "core 2 of 3 is taken out")
        assert shares[2] < 40 // 4
        # It stays out without another word.
        reference = expected(THREE, 30)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = device.run(reference.inputs)
        assert same(again, reference)
        assert again.cores[2].samples == shares[2]
        assert not again.cores[2].in_service


def test_core_that_does_not_end_in_time_is_taken_out() -> None:
    """No word from the virtual board that nothing moves: the driver's own limit of time."""
    files = load_overlay(overlay_directory("tiny", 3))
    board = VirtualBoard("zynq7", stall_reads=10**9)
    with board, BoardOverlay(files, VirtualTarget("zynq7", board), timeout=0.3) as overlay:
        device = overlay.open(compiled_program(THREE))
        assert isinstance(device, CoresDevice)
        inject(overlay, KernelNeverDone(kernel="accelerator_1", sticky=True))
        shares = run_with_warning(device, THREE, 50, "core 1 of 3 is taken out")
    assert shares[1] == 0


@pytest.mark.parametrize(
    "fault",
    [
        DmaError(dma="tensor_dma_1", channel="s2mm", kind="decode", sticky=True),
        CorruptedTransfer(dma="tensor_dma_1", channel="mm2s", byte=400, bit=3, sticky=True),
    ],
    ids=["output", "wrong input"],
)
def test_core_that_answers_with_an_error_is_taken_out(fault: Fault) -> None:
    with opened(THREE) as (overlay, device):
        inject(overlay, fault)
        for other in (0, 2):
            delay(overlay, other, 0.1)
        shares = run_with_warning(device, THREE, 40, "core 1 of 3 is taken out")
        assert shares[1] == 0
        assert min(shares[0], shares[2]) > 0


def test_core_whose_weights_do_not_arrive_is_out_from_the_beginning() -> None:
    with open_case(THREE, "virtual") as overlay:
        inject(overlay, CorruptedTransfer(dma="weight_dma_1", channel="mm2s", byte=8, bit=0))
        with pytest.warns(CoreWarning, match="core 1 of 3 is taken out"):
            device = overlay.open(compiled_program(THREE))
        reference = expected(THREE, 20)
        result = device.run(reference.inputs)
        assert same(result, reference)
        assert result.cores[1].samples == 0


def test_slower_core_gets_fewer_samples_and_the_order_is_kept() -> None:
    with opened(THREE) as (overlay, device):
        for core in (1, 2):
            delay(overlay, core, 0.3)
        reference = expected(THREE)
        result = device.run(reference.inputs)
        assert same(result, reference)
        first, *others = (core.samples for core in result.cores)
        assert 0 < min(others) <= max(others) < first
        assert first + sum(others) == SAMPLES


def test_one_error_names_every_core_when_none_is_left_and_the_next_run_has_all_again() -> None:
    with opened(THREE) as (overlay, device):
        kernels = ("accelerator", "accelerator_1", "accelerator_2")
        inject(overlay, *(KernelNeverDone(kernel=kernel, sticky=True) for kernel in kernels))
        reference = expected(THREE, 40)
        with pytest.raises(DeviceError, match="no core of the overlay works any more") as error:
            device.run(reference.inputs)
        assert all(f"core {number}:" in str(error.value) for number in range(3))
        overlay.target.board.faults.clear()  # type: ignore[attr-defined]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = device.run(reference.inputs)
        assert same(result, reference)
        assert all(core.in_service and core.samples for core in result.cores)


def test_wrong_samples_are_the_users_error_and_no_core_is_taken_out() -> None:
    with opened(THREE) as (_, device):
        reference = expected(THREE, 20)
        name = next(iter(reference.inputs))
        with pytest.raises(DataError):
            device.run({name: np.zeros((4, 3), np.float32)})
        result = device.run(reference.inputs)
        assert same(result, reference)
        assert not any(core.taken_out for core in result.cores)


# What belongs to one core


def test_program_that_learns_from_sample_to_sample_has_one_core() -> None:
    case = "digits_learning_cores"
    with open_case(case, "virtual") as overlay:
        device = overlay.open(compiled_program(case))
        assert isinstance(device, StreamingDevice)
        reference = expected(case, 30)
        assert same(device.run(reference.inputs), reference)


def test_overlay_of_another_count_is_refused() -> None:
    """The kernel tells the count by its identification; the program by its digest."""
    with open_case("digits_tiny", "virtual") as overlay, pytest.raises(ProgramError):
        overlay.open(compiled_program(THREE))


def test_closed_devices_say_so_and_leave_nothing() -> None:
    with opened(THREE) as (overlay, device):
        second = overlay.open(compiled_program(THREE))
        with pytest.raises(DeviceError, match="closed"):
            device.run(expected(THREE, 2).inputs)
        device.close()
        reference = expected(THREE, 10)
        assert same(second.run(reference.inputs), reference)
    assert overlay.target.board.memory.buffers == {}  # type: ignore[attr-defined]


def test_every_core_is_identified_before_it_is_used() -> None:
    """A core that does not answer the probe is named."""
    files = load_overlay(overlay_directory("tiny", 3))
    target = target_of("virtual", "zynq7")

    def silent(description: Mapping[str, Any]) -> CompiledKernel:
        kernel = kernel_from_description(description)
        made.append(kernel)
        if len(made) == 2:
            kernel.results = lambda: CompiledKernel.results(kernel) | {"identification": 5}  # type: ignore[method-assign]
        return kernel

    made: list[CompiledKernel] = []
    target.device._kernels = silent
    with pytest.raises(DeviceError, match="identification of the kernel of core 1"):
        BoardOverlay(files, target)
