"""The virtual board whose kernel is the simulated Verilog: PYNQ's classes drive its ports, registers and interrupt.

Stand-ins in Verilog copy the input to the output; the kernel of `tiny` whole runs with --all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import board_fixtures
import numpy as np
import pytest
from process_designs import TINY
from pynq_designs import Bytes, random_bytes, start_kernel, write_design
from stand_in_ips import BODIES, stand_in
from verilog_simulation import missing_tools

pynq = pytest.importorskip("pynq")

import bfpga  # noqa: E402
from bfpga.accelerator.loader import load_accelerator  # noqa: E402
from bfpga.board.local import VirtualTarget  # noqa: E402
from bfpga.board.overlays import find_overlay, kernel_descriptions  # noqa: E402
from bfpga.board.virtual.board import BoardStall, VirtualBoard  # noqa: E402
from bfpga.board.virtual.faults import KernelNeverDone, StuckStream  # noqa: E402
from bfpga.board.virtual.pynq_device import VirtualDevice, virtual_device  # noqa: E402
from bfpga.board.virtual.rtl_kernel import RtlKernel, rtl_kernel  # noqa: E402
from bfpga.contract.registers import Control, counter_offset_of, offset_of  # noqa: E402
from bfpga.errors import BfpgaError, DeviceError  # noqa: E402
from bfpga.rtl import kernel, simulation  # noqa: E402
from bfpga.runtime import check_device  # noqa: E402
from bfpga.vendor.kernel_ips import kernel_ips  # noqa: E402

pytestmark = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))
ACCELERATOR = load_accelerator(TINY)
BEAT = ACCELERATOR.config.stream_bits // 8
CTRL, GIER, IER, ISR = (offset_of(name) for name in ("CTRL", "GIER", "IP_IER", "IP_ISR"))
COUNT = offset_of("descriptor_count")
#: A `store` that says only after 4,095 clocks that it is done; no word moves in the kernel meanwhile.
LATE = {
    "store": BODIES["store"]
    .replace("reports ? ~store_reports_TREADY", "reports ? ~(store_reports_TREADY & (&late))")
    .replace(
        "assign store_reports_TVALID = reports;",
        "reg [11:0] late;\n    always @(posedge ap_clk) late <= reports ? late + ~&late : 12'd0;\n"
        "    assign store_reports_TVALID = reports & (&late);",
    )
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache in which stand-ins are no kernel of anybody else."""
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("cache")
        patch.setenv("BFPGA_CACHE", str(place))
        patch.setenv("BFPGA_CXXFLAGS", "-O0")
        yield place


def opened(patch: pytest.MonkeyPatch, place: Path, name: str, bodies: Mapping[str, str]) -> VirtualDevice:
    """A board with a kernel of stand-ins; name: of their simulation in the cache."""
    patch.setattr(kernel, "ips_of", lambda accelerator, progress: [
        stand_in(ip, bodies) for ip in kernel_ips(ACCELERATOR.config)
    ])  # fmt: skip
    patch.setattr(simulation, "simulation_digest", lambda accelerator: name)
    return virtual_device("zynq7", kernels=lambda description: RtlKernel(ACCELERATOR))


class Copying:
    """An overlay on such a board, and what a program does with it by PYNQ's classes alone."""

    def __init__(self, device: VirtualDevice, place: Path) -> None:
        self.device = device
        self.board: VirtualBoard = device.board
        self.overlay = pynq.Overlay(write_design(place / "copying"), device=device)
        self.kernel, self.dma = self.overlay.accelerator, self.overlay.tensor_dma

    def begin(self, data: Bytes, count: int) -> Any:
        """Begin a start of ``count`` beats with these bytes; the buffer for its output."""
        source = pynq.allocate(data.shape, np.uint8, target=self.device)
        target = pynq.allocate((count * BEAT,), np.uint8, target=self.device)
        source[:] = data
        self.dma.recvchannel.transfer(target)
        start_kernel(self.overlay, count)
        self.dma.sendchannel.transfer(source)
        return target

    def copied(self, count: int) -> Bytes:
        """The output of a start of ``count`` beats; the input is ``random_bytes``."""
        target = self.begin(random_bytes(count * BEAT, count), count)
        self.dma.sendchannel.wait()
        self.dma.recvchannel.wait()
        self.wait()
        return np.array(target)

    def wait(self) -> None:
        """Until the kernel is done."""
        while not self.kernel.read(CTRL) & Control.DONE:
            pass


@pytest.fixture
def copying(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Copying]:
    with opened(monkeypatch, cache, "copying", BODIES) as device:
        yield Copying(device, tmp_path)


def test_starts_follow_each_other_with_the_registers_of_the_verilog(copying: Copying) -> None:
    assert copying.kernel.read(CTRL) == Control.IDLE
    for count in (1, 300, 5000, 2):  # more than a stream holds, too
        np.testing.assert_array_equal(copying.copied(count), random_bytes(count * BEAT, count))
        assert copying.kernel.register_map.cycles.cycles == count
        assert copying.kernel.read(CTRL) == Control.IDLE  # done and ready were cleared by reading


def test_interrupt_rises_at_the_end_and_is_toggled_away(copying: Copying) -> None:
    copying.kernel.write(GIER, 1)
    copying.kernel.write(IER, 1)
    copying.begin(random_bytes(10 * BEAT), 10)
    wanted = Control.DONE | Control.IDLE | Control.READY | Control.INTERRUPT
    assert copying.kernel.read(CTRL) == wanted
    (slave,) = copying.board.fabric.kernels
    assert slave.interrupt("interrupt")
    assert copying.kernel.read(ISR) == 1
    copying.kernel.write(ISR, 1)
    assert not slave.interrupt("interrupt")


def test_writes_have_strobes(copying: Copying) -> None:
    base = copying.overlay.ip_dict["accelerator"]["phys_addr"]
    copying.kernel.write(COUNT, 0x11223344)
    copying.board.write(base + COUNT + 1, b"\x55")
    assert copying.kernel.read(COUNT) == 0x11225544


def test_clocks_are_those_that_the_verilog_took(copying: Copying) -> None:
    copying.kernel.write(GIER, 1)
    copying.kernel.write(IER, 1)
    counted = []
    for count in (100, 1100):
        copying.copied(count)
        copying.kernel.write(ISR, 1)
        counted.append(copying.overlay.clock_counter.mmio.read(counter_offset_of("clocks")))
    # A beat a clock; what a start takes besides is the same for both: its begin, and until it is seen that it waits.
    assert counted[1] - counted[0] == 1000
    assert counted[0] < 100 + 600


def test_a_start_that_lacks_beats_is_explained_and_given_up_by_a_reset(copying: Copying) -> None:
    copying.begin(random_bytes(50 * BEAT), 100)
    with pytest.raises(BoardStall, match=r"`accelerator` was started .*`loads` is empty, its reader waits"):
        copying.wait()
    copying.board.reset_fabric()
    copying.dma.recvchannel.start()
    copying.dma.sendchannel.start()
    assert copying.kernel.read(CTRL) == Control.IDLE
    np.testing.assert_array_equal(copying.copied(70), random_bytes(70 * BEAT, 70))


def test_an_overlay_that_is_loaded_again_amid_a_start_begins_anew(copying: Copying) -> None:
    copying.begin(random_bytes(50 * BEAT), 100)
    copying.overlay.download()
    copying.dma.recvchannel.start()
    copying.dma.sendchannel.start()
    np.testing.assert_array_equal(copying.copied(70), random_bytes(70 * BEAT, 70))


def test_a_program_that_waits_gives_a_kernel_time_in_which_no_word_moves(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(monkeypatch, cache, "late", BODIES | LATE) as device:
        late = Copying(device, tmp_path)
        for count in (20, 3):
            np.testing.assert_array_equal(late.copied(count), random_bytes(count * BEAT, count))


def test_faults_of_modelled_registers_are_refused(copying: Copying) -> None:
    with pytest.raises(DeviceError, match="KernelNeverDone is for models; `accelerator` is Verilog"):
        copying.board.faults.inject(KernelNeverDone(kernel="accelerator"))


def test_target_is_named_and_its_description_needs_a_clock() -> None:
    check_device("virtual:rtl")
    (description,) = kernel_descriptions(find_overlay(TINY).manifest).values()
    assert description["clock_mhz"] == ACCELERATOR.clock_mhz
    with pytest.raises(DeviceError, match="states the clock None"):
        rtl_kernel({name: value for name, value in description.items() if name != "clock_mhz"})


@pytest.mark.slow
@pytest.mark.parametrize("wait", ["poll", "interrupt"])
def test_a_network_runs_on_the_verilog_and_again_after_an_interrupted_run(wait: str) -> None:
    program, expected = board_fixtures.compiled_program("lenet_tiny"), board_fixtures.expected("lenet_tiny", 2)
    with bfpga.Overlay(find_overlay(TINY), "virtual:rtl", wait) as overlay:
        device, target = overlay.open(program), overlay.target
        assert isinstance(target, VirtualTarget)
        for fault in (None, StuckStream(stream="tensor_dma/M_AXIS_MM2S", after_bytes=100), None):
            if fault is not None:
                target.board.faults.inject(fault)
                with pytest.raises(BfpgaError):
                    device.run(expected.inputs)
                continue
            result = device.run(expected.inputs)
            for name, value in expected.outputs.items():
                np.testing.assert_array_equal(result.outputs[name], value)
            assert result.measured is not None
            assert result.measured.scheduled < result.measured.clocks < 1.1 * result.measured.scheduled
