"""The Verilog of the clock counter, simulated: it counts every clock of a start, and a wait once.

Without Yosys the simulation is skipped; what the text of the module says of its registers is checked everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random

import pytest
from verilog_simulation import Simulation, missing_tools

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.registers import CLOCK_COUNTER, COUNTER_REGISTERS, REGISTER_SPACE, Control, offset_of
from bfpga.vendor.clock_counter import counter_context
from bfpga.vendor.render import render_kernel

STREAMS = ("input_stream", "weight_stream", "output_stream")
INPUTS = (
    "aresetn",
    *(f"control_{name}" for name in ("awaddr", "awvalid", "awready", "wdata", "wstrb", "wvalid", "wready")),
    *(f"{stream}_{signal}" for stream in STREAMS for signal in ("tvalid", "tready")),
    *(f"s_axi_counter_{name}" for name in ("araddr", "arvalid", "rready", "awvalid", "wvalid", "bready")),
    "interrupt",
)
OUTPUTS = tuple(f"s_axi_counter_{name}" for name in ("arready", "rvalid", "rdata", "awready", "bvalid"))
Row = dict[str, int]


def verilog(accelerator: str = "tiny") -> str:
    described = load_accelerator(accelerator)
    return render_kernel(described.name, described.digest, described.config)["rtl/clock_counter.v"]


@dataclass
class Bench:
    """Rows of inputs, and what the counter must show at the clocks in which its registers are read."""

    random: Random
    rows: list[Row] = field(default_factory=list)
    expected: dict[str, int] = field(default_factory=dict)
    checks: list[tuple[int, str, int]] = field(default_factory=list)
    outputs: list[Row] = field(default_factory=list)

    def idle(self, count: int, **signals: int) -> None:
        self.rows += [{"aresetn": 1, **self.traffic(), **signals} for _ in range(count)]

    def traffic(self) -> Row:
        return {f"{stream}_{signal}": self.random.randrange(2) for stream in STREAMS for signal in ("tvalid", "tready")}

    def write(self, address: int, data: int, order: str, strobes: int = 15) -> int:
        """A write to the kernel's control port; the clock in which both halves are accepted."""
        first: Row = {"control_awaddr": address, "control_awvalid": 1, "control_awready": 1}
        second: Row = {"control_wdata": data, "control_wstrb": strobes, "control_wvalid": 1, "control_wready": 1}
        if order == "together":
            self.idle(1, **first, **second)
        else:
            halves = (first, second) if order == "address first" else (second, first)
            # The other half is offered already, but not accepted.
            self.idle(1, **halves[0], **{name: value for name, value in halves[1].items() if "ready" not in name})
            self.idle(self.random.randrange(3))
            self.idle(1, **halves[1])
        return len(self.rows) - 1

    def start(self, clocks: int, stale: int = 0) -> None:
        """A start whose interrupt rises ``clocks`` clocks after the write, and what the counter must say then.

        ``stale``: clocks for which it is still high from before; only its rise is an end.
        """
        self.idle(stale, interrupt=1)
        begin = self.write(offset_of("CTRL"), int(Control.START), "together" if stale else self.random.choice(ORDERS))
        if stale:
            self.rows[begin]["interrupt"] = 1
        self.idle(stale, interrupt=1)
        self.idle(clocks - stale)
        self.idle(1, interrupt=1)
        end = len(self.rows) - 1
        self.idle(self.random.randrange(4), interrupt=1)
        self.expected = reference(self.rows, begin, end)

    def read_all(self) -> None:
        for register in COUNTER_REGISTERS:
            self.idle(1, s_axi_counter_araddr=register.offset, s_axi_counter_arvalid=1)
            self.idle(self.random.randrange(3))
            self.idle(1, s_axi_counter_rready=1)
            self.checks.append((len(self.rows) - 1, register.name, self.expected[register.name]))
            self.idle(1)


ORDERS = ("together", "address first", "data first")


def reference(rows: list[Row], begin: int, end: int) -> dict[str, int]:
    """Clocks between the write and the interrupt, and sets of those in which streams waited."""
    counted = range(begin + 1, end)
    waits: dict[str, set[int]] = {}
    for stream in STREAMS:
        valid, ready = ([row.get(f"{stream}_{signal}", 0) for row in rows] for signal in ("tvalid", "tready"))
        if stream == "output_stream":
            waits[stream] = {clock for clock in counted if valid[clock] and not ready[clock]}
            continue
        beats = [clock for clock in range(begin + 1, end + 1) if valid[clock] and ready[clock]]
        last = max(beats, default=begin)
        waits[stream] = {clock for clock in counted if ready[clock] and not valid[clock] and clock < last}
    names = dict(zip(STREAMS, ("input_waits", "weight_waits", "output_waits"), strict=True))
    return {
        "clocks": len(counted),
        "waits": len(set.union(*waits.values())),
        **{names[stream]: len(clocks) for stream, clocks in waits.items()},
    }


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Simulation:
    reason = missing_tools()
    if reason is not None:
        pytest.skip(reason)
    return Simulation(verilog(), CLOCK_COUNTER, INPUTS, OUTPUTS, tmp_path_factory.mktemp("counter"))


def test_counter_counts_every_clock_and_every_wait_once(simulation: Simulation) -> None:
    """Random traffic on all streams through starts of 1 to 300 clocks; both halves of a write in any order."""
    bench = Bench(Random(13))
    bench.rows += [{"aresetn": 0, **bench.traffic()} for _ in range(3)]
    for clocks in (40, 1, 300, *(bench.random.randrange(2, 60) for _ in range(25))):
        bench.idle(2)
        bench.start(clocks)
        bench.idle(4)
        bench.read_all()
    read = run(bench, simulation)
    assert [(name, value) for _, name, value in bench.checks] == read
    assert {value for name, value in read if name == "clocks"} >= {1, 40, 300}
    assert any(value for name, value in read if name == "waits")


def test_what_is_no_start_counts_nothing_and_a_write_to_the_counter_changes_nothing(simulation: Simulation) -> None:
    bench = Bench(Random(5))
    bench.rows += [{"aresetn": 0, **bench.traffic()} for _ in range(3)]
    bench.start(20, stale=5)
    for order in ORDERS:
        bench.write(offset_of("descriptor_count"), 1, order)
        bench.write(offset_of("CTRL"), 0xFE, order)
        bench.write(offset_of("CTRL"), int(Control.START), order, strobes=0b1110)
    bench.idle(5, s_axi_counter_awvalid=1)
    bench.idle(3, s_axi_counter_awvalid=1, s_axi_counter_wvalid=1)
    answered = len(bench.rows)
    bench.idle(1, s_axi_counter_bready=1)
    bench.idle(1)
    bench.read_all()
    assert [(name, value) for _, name, value in bench.checks] == run(bench, simulation)
    rows = bench.outputs
    assert [row["s_axi_counter_awready"] for row in rows[answered - 8 : answered]] == [0] * 5 + [1, 0, 0]
    assert [row["s_axi_counter_bvalid"] for row in rows[answered - 3 : answered + 2]] == [0, 1, 1, 1, 0]


def run(bench: Bench, simulation: Simulation) -> list[tuple[str, int]]:
    """What is read at the clocks of the bench."""
    bench.outputs = simulation.run(bench.rows)
    assert all(bench.outputs[clock]["s_axi_counter_rvalid"] for clock, _, _ in bench.checks)
    return [(name, bench.outputs[clock]["s_axi_counter_rdata"]) for clock, name, _ in bench.checks]


@pytest.mark.parametrize("accelerator", ["tiny", "zcu104_dense"])
def test_registers_and_widths_of_the_verilog_are_those_of_the_contract(accelerator: str) -> None:
    text = verilog(accelerator)
    cases = dict(re.findall(r"16'h([0-9a-f]{4}): s_axi_counter_rdata <= (\w+);", text))
    assert {name: int(offset, 16) for offset, name in cases.items()} == {r.name: r.offset for r in COUNTER_REGISTERS}
    assert f"input wire [{(REGISTER_SPACE - 1).bit_length() - 1}:0] s_axi_counter_araddr" in text
    config = load_accelerator(accelerator).config
    widths = (config.stream_bits, config.weight_stream_bits, config.stream_bits)
    for stream, bits in zip(STREAMS, widths, strict=True):
        assert f"input wire [{bits - 1}:0] {stream}_tdata" in text


def test_every_interface_declares_its_mode_once() -> None:
    """Vivado takes an interface for a slave unless an attribute of one of its ports says otherwise."""
    text = verilog()
    modes = {item["name"]: item["mode"] for item in counter_context(load_accelerator("tiny").config)["interfaces"]}
    assert modes == {"s_axi_counter": "slave", "control": "monitor", **dict.fromkeys(STREAMS, "monitor")}
    assert re.findall(r'X_INTERFACE_MODE = "(\w+)"', text) == list(modes.values())
    driven = set(re.findall(r"output (?:wire|reg) (?:\[\d+:0\] )?(\w+)", text))
    assert all(name.startswith("s_axi_counter_") for name in driven), "it drives nothing but its own registers"
