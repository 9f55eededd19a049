"""Clock and reset registers, read and set as the data sheets and PYNQ do."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from virtual_designs import KERNEL, Design, Host

from bfpga.board.virtual.board import BusError, VirtualBoard
from bfpga.board.virtual.clocks import Zynq7, ZynqMp, processing_system
from bfpga.board.virtual.faults import Faults
from bfpga.board.virtual.hardware_description import PlClock

SLCR, CRL, CRF, GPIO = 0xF8000000, 0xFF5E0000, 0xFD1A0000, 0xFF0A0000


def word(board: VirtualBoard, address: int) -> int:
    return int.from_bytes(board.read(address), "little")


def store(board: VirtualBoard, address: int, value: int) -> None:
    board.write(address, value.to_bytes(4, "little"))


@pytest.mark.parametrize(("family", "mhz"), [("zynq7", 100.0), ("zynqmp", 99.999)])
def test_after_boot_the_clocks_run(family: str, mhz: float) -> None:
    clocks = processing_system(family, Faults())
    assert [clocks.frequency_mhz(index) for index in range(4)] == [pytest.approx(mhz)] * 4


def test_zynq7_clock_by_direct_decode() -> None:
    board = Host().board
    control, pll = word(board, SLCR + 0x170), word(board, SLCR + 0x108)
    multiplier, first, second = pll >> 12 & 0x7F, control >> 8 & 0x3F, control >> 20 & 0x3F
    assert 50 * multiplier / first / second == pytest.approx(1000 / 7)
    assert control >> 4 & 3 == 0
    assert word(board, SLCR + 0x10C) == 0x3F, "all PLLs locked"
    store(board, SLCR + 0x170, 4 << 20 | 5 << 8)
    assert board.clocks.frequency_mhz(0) == 50


def test_zynqmp_clock_by_direct_decode() -> None:
    board = Host(Design("zynqmp")).board
    control = word(board, CRL + 0xC0)
    assert control & 7 == 2, "RPLL"
    assert control >> 24 & 1, "active"
    pll = word(board, CRL + 0x30)
    assert 33.333 * (pll >> 8 & 0x7F) / (1 + (pll >> 16 & 1)) / (control >> 8 & 0x3F) == pytest.approx(299.997)
    assert word(board, CRL + 0x40) & 3 == 3, "both PLLs locked"


def test_a_divisor_of_zero_is_no_clock() -> None:
    board = Host().board
    store(board, SLCR + 0x170, 0)
    assert board.clocks.frequency_mhz(0) == 0


@pytest.mark.parametrize(
    ("clocks", "expected"),
    [
        # 4 x 4 x 100 MHz: the IO PLL must run at 1,600 MHz, 32 times the crystal.
        ([PlClock(0, True, 100.0, 4, 4, "IO PLL")], {0: 100.0}),
        # Two clocks that ask for different PLLs rates: the second takes the nearest divisors.
        ([PlClock(0, True, 100.0, 5, 2, "IO PLL"), PlClock(1, True, 150.0, 8, 1, "IO PLL")], {0: 100.0, 1: 1000 / 7}),
        # No divisors in the file.
        ([PlClock(2, True, 125.0, 0, 0, "")], {2: 125.0}),
        # A PLL that no multiplier reaches.
        ([PlClock(0, True, 333.0, 1, 1, "DDR PLL")], {0: 350.0}),
        ([PlClock(3, False, 200.0, 5, 1, "IO PLL")], {3: 100.0}),
    ],
)
def test_declared_clocks_are_reached(clocks: list[PlClock], expected: dict[int, float]) -> None:
    system = Zynq7(Faults())
    system.configure(clocks)
    assert {index: system.frequency_mhz(index) for index in expected} == {
        index: pytest.approx(mhz) for index, mhz in expected.items()
    }


def test_ultrascale_plls_are_halved() -> None:
    system = ZynqMp(Faults())
    system.configure([PlClock(0, True, 200.0, 5, 1, "IOPLL")])
    assert system.pll_mhz("IOPLL") == pytest.approx(1000, rel=1e-4)
    assert system.frequency_mhz(0) == pytest.approx(200, rel=1e-4)


def test_a_locked_slcr_ignores_writes() -> None:
    board = Host().board
    before = word(board, SLCR + 0x170)
    store(board, SLCR + 0x004, 0x767B)
    store(board, SLCR + 0x170, 0)
    assert (word(board, SLCR + 0x00C), word(board, SLCR + 0x170)) == (1, before)
    store(board, SLCR + 0x008, 0xDF0D)
    store(board, SLCR + 0x170, 5 << 8 | 1 << 20)
    assert (word(board, SLCR + 0x00C), board.clocks.frequency_mhz(0)) == (0, 200)


def test_a_wrong_key_does_not_lock() -> None:
    board = Host().board
    store(board, SLCR + 0x004, 1)
    assert word(board, SLCR + 0x00C) == 0


def test_status_registers_cannot_be_written() -> None:
    board = Host().board
    store(board, SLCR + 0x10C, 0)
    assert word(board, SLCR + 0x10C) == 0x3F
    board = Host(Design("zynqmp")).board
    store(board, CRL + 0x40, 0)
    store(board, CRF + 0x44, 0)
    assert word(board, CRL + 0x40) == 0x1B
    assert word(board, CRF + 0x44) == 0x3F


def reset_by(host: Host, address: int, assert_value: int, release_value: int) -> None:
    host.start_kernel(100)
    store(host.board, address, assert_value)
    assert host.board.explain() == ["The programmable logic is held in reset by the processor."]
    with pytest.raises(BusError, match=r"adder at .* does not answer: the logic is held in reset"):
        host.read(KERNEL)
    store(host.board, address, release_value)
    assert host.read(KERNEL) == 4
    assert host.read(KERNEL + 0x10) == 0


def test_the_slcr_resets_the_logic() -> None:
    reset_by(Host(), SLCR + 0x240, 1, 0)


@pytest.mark.parametrize(
    ("offset", "asserted", "released"), [(0x054, 0, 1 << 31), (0x02C, 0x7FFF << 16, 0x7FFF << 16 | 0x8000)]
)
def test_emio_bit_95_resets_the_logic(offset: int, asserted: int, released: int) -> None:
    reset_by(Host(Design("zynqmp")), GPIO + offset, asserted, released)


@pytest.mark.parametrize("address", [0xFD615000, 0xFF419000, 0xFD360000, 0xFD3B0014, 0xFF9B0014])
def test_port_width_registers_keep_what_pynq_writes(address: int) -> None:
    board = Host(Design("zynqmp")).board
    store(board, address, 0x201)
    assert word(board, address) == 0x201


class RegisterDevice:
    """What `pynq.MMIO` needs of a device."""

    def __init__(self, board: VirtualBoard) -> None:
        self.read_registers = board.read
        self.write_registers = lambda address, data: board.write(address, bytes(data))

    def has_capability(self, name: str) -> bool:
        return name == "REGISTER_RW"


def pynq_clocks(family: str, board: VirtualBoard) -> Any:
    ps: ModuleType = pytest.importorskip("pynq.ps")
    try:
        return {"zynq7": ps._ClocksZynq, "zynqmp": ps._ClocksUltrascale}[family](device=RegisterDevice(board))
    except TypeError:
        pytest.skip("this pynq reads clocks of the host itself")


@pytest.mark.parametrize(("family", "mhz"), [("zynq7", 1000 / 7), ("zynqmp", 299.997)])
def test_pynq_reads_and_sets_the_clocks(family: str, mhz: float) -> None:
    board = Host(Design(family)).board  # type: ignore[arg-type]
    clocks = pynq_clocks(family, board)
    assert clocks.get_pl_clk(0) == pytest.approx(mhz, rel=1e-5)
    clocks.set_pl_clk(0, clk_mhz=100)
    assert clocks.get_pl_clk(0) == pytest.approx(100, rel=0.01)
    assert board.clocks.frequency_mhz(0) == pytest.approx(clocks.get_pl_clk(0), rel=1e-5)
    clocks.set_pl_clk(1, 10, 2)
    assert board.clocks.frequency_mhz(1) == pytest.approx(clocks.get_pl_clk(1), rel=1e-5)
    assert clocks.get_cpu_mhz() == pytest.approx({"zynq7": 650, "zynqmp": 1200}[family], rel=1e-3)
