"""A host that nobody of this project wrote: cocotb with the bus models of cocotbext-axi, on a kernel in Verilog.

cocotb imports this module in the simulator. It gives the kernel the starts of a testbench's vectors, with pauses at
every port, compares all streams and registers, resets it amid a start, and begins anew.
"""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

from bfpga.contract.registers import ARGUMENT_REGISTERS, CONTROL_PORT, Control, offset_of

VECTORS, STARTS, SEED = "BFPGA_VECTORS", "BFPGA_STARTS", "BFPGA_SEED"
_MOST_CLOCKS = 200_000
#: What a line of `starts.txt` has after the name of the start.
_GIVEN = ("descriptor_count", "control")
_REPORTED = tuple(register.name for register in ARGUMENT_REGISTERS if register.access == "r")


def pauses(seed: int) -> Any:
    """Whether a port pauses, clock by clock: in bursts of the same chance."""
    chance = random.Random(seed)
    while True:
        share = chance.choice([0.0, 0.1, 0.7])
        yield from (chance.random() < share for _ in range(64))


class Host:
    """The bus masters of a kernel."""

    def __init__(self, dut: Any, seed: int) -> None:
        self.dut = dut
        clocked = (dut.ap_clk, dut.ap_rst_n)
        self.control = AxiLiteMaster(AxiLiteBus.from_prefix(dut, CONTROL_PORT), *clocked, reset_active_level=False)
        self.input = AxiStreamSource(AxiStreamBus.from_prefix(dut, "input_stream"), *clocked, reset_active_level=False)
        self.weights = AxiStreamSource(
            AxiStreamBus.from_prefix(dut, "weight_stream"), *clocked, reset_active_level=False
        )
        self.output = AxiStreamSink(AxiStreamBus.from_prefix(dut, "output_stream"), *clocked, reset_active_level=False)
        lite = self.control
        channels = (
            lite.write_if.aw_channel, lite.write_if.w_channel, lite.write_if.b_channel,
            lite.read_if.ar_channel, lite.read_if.r_channel, self.input, self.weights, self.output,
        )  # fmt: skip
        for number, channel in enumerate(channels):
            channel.set_pause_generator(itertools.cycle([False]) if seed == 0 else pauses(seed * 16 + number))

    async def reset(self) -> None:
        self.dut.ap_rst_n.value = 0
        for stream in (self.input, self.weights, self.output):
            stream.clear()
        await ClockCycles(self.dut.ap_clk, 5)
        self.dut.ap_rst_n.value = 1
        await ClockCycles(self.dut.ap_clk, 2)
        await self.control.write_dword(offset_of("GIER"), 1)
        await self.control.write_dword(offset_of("IP_IER"), 1)

    async def begin(self, folder: Path, name: str, numbers: dict[str, int]) -> None:
        for register in _GIVEN:
            await self.control.write_dword(offset_of(register), numbers[register])
        for stream, part in ((self.input, "input"), (self.weights, "weights")):
            data = (folder / f"{name}.{part}.bin").read_bytes()
            if data:
                await stream.send(AxiStreamFrame(data))
        await self.control.write_dword(offset_of("CTRL"), int(Control.START))

    async def finish(self, folder: Path, name: str, numbers: dict[str, int]) -> None:
        for _ in range(_MOST_CLOCKS):
            if self.dut.interrupt.value:
                break
            await RisingEdge(self.dut.ap_clk)
        else:
            raise AssertionError(f"{name}: no interrupt after {_MOST_CLOCKS} clocks")
        shown = Control(await self.control.read_dword(offset_of("CTRL")))
        assert shown & Control.DONE, f"{name}: interrupt without done"
        assert not Control(await self.control.read_dword(offset_of("CTRL"))) & Control.DONE, "done is not cleared"
        await self.control.write_dword(offset_of("IP_ISR"), 1)
        assert not self.dut.interrupt.value, "the interrupt is not cleared"
        for register in _REPORTED:
            if register in numbers:
                found = await self.control.read_dword(offset_of(register))
                assert found == numbers[register], f"{name}: {register} is {found}, not {numbers[register]}"
        expected = (folder / f"{name}.output.bin").read_bytes()
        if expected:
            frame = await self.output.recv()
            assert bytes(frame.tdata) == expected, f"{name}: the output differs"
        assert self.output.empty(), f"{name}: more output than expected"
        assert self.input.idle(), f"{name}: input was not read"
        assert self.weights.idle(), f"{name}: weights were not read"


def read_starts(folder: Path) -> list[tuple[str, dict[str, int]]]:
    """Starts with the numbers of their registers; the number by which a kernel is known is not among them."""
    names = (*_GIVEN, *(name for name in _REPORTED if name != "identification"))
    lines = [line.split() for line in (folder / "starts.txt").read_text().splitlines()]
    return [(name, dict(zip(names, map(int, numbers), strict=True))) for name, *numbers in lines]


@cocotb.test()
async def starts_are_as_recorded(dut: Any) -> None:
    """The first starts, then a reset amid one of them, then all again."""
    folder, count = Path(os.environ[VECTORS]), int(os.environ[STARTS])
    cocotb.start_soon(Clock(dut.ap_clk, 10, "ns").start())
    host = Host(dut, int(os.environ[SEED]))
    starts = read_starts(folder)[:count]
    for aborted in (True, False):
        await host.reset()
        for number, start in enumerate(starts):
            await host.begin(folder, *start)
            if aborted and number == count // 2:
                await ClockCycles(dut.ap_clk, 40)
                break
            await host.finish(folder, *start)
