"""Mapped cells as paths: where they begin and end, and what counts as a register of a recurrence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bfpga.synthesis.netlist.cell_arcs import cell_delays, net_graph, whole_graph
from bfpga.synthesis.netlist.mapped import Bit, Cell, MappedModule
from bfpga.synthesis.netlist.timing import NetGraph, Path, longest_path, recurrence_clock

XC7 = cell_delays("xc7")
LEVEL = XC7["net"] + XC7["lut"]
TO, UNTIL = XC7["clock_to"]["register"], XC7["net"] + XC7["setup"]["register"]


def graph_of(cells: list[Cell], names: dict[str, str], interval: int = 1) -> NetGraph:
    instance = SimpleNamespace(name="part", module="part", origins={}, inputs={}, outputs={})
    pipeline = SimpleNamespace(interval=interval)
    design = SimpleNamespace(body=None, pipeline=pipeline, inputs={}, outputs={}, nets={}, instances=[instance])
    return net_graph(cast(Any, design), {"part": MappedModule({}, cells, names)})


def register(data: int, output: int) -> Cell:
    return "FDRE", {"D": [data], "Q": [output], "CE": ["1"], "R": ["0"]}


def table(into: int, output: int) -> Cell:
    return "$lut", {"A": [into], "Y": [output]}


def whole_path(ports: dict[str, list[Bit]], *cells: Cell) -> Path:
    """Of an IP in one piece."""
    path = longest_path(whole_graph(MappedModule(ports, list(cells), {"3": "held[0]", "4": "sum[0]"})))
    assert path is not None
    return path


def test_a_path_of_a_whole_ip_has_the_names_of_its_registers() -> None:
    path = whole_path({}, register(9, 3), table(3, 5), register(5, 4))
    assert (path.begin.name, path.end.name) == ("held[0]", "sum[0]")
    assert path.delay == pytest.approx(TO + LEVEL + UNTIL)


def test_an_ip_has_registers_of_others_at_its_ports() -> None:
    """A word that passes through without a register is a path too, which no loop has: of a stream's readiness."""
    path = whole_path({"in_TREADY": [7], "out_TREADY": [6]}, table(6, 7))
    assert (path.begin.name, path.end.name) == ("out_TREADY", "in_TREADY")
    assert path.delay == pytest.approx(TO + LEVEL + UNTIL)


@pytest.mark.parametrize(
    ("kind", "address", "output"), [("RAM64M", "ADDRB", "DOB"), ("RAM32X1D", "DPRA3", "DPO"), ("RAM256X1S", "A", "O")]
)
def test_a_memory_in_look_up_tables_is_read_on_the_way(kind: str, address: str, output: str) -> None:
    """The address that is read, not the word that is written."""
    before, after = (register(9, 3), table(3, 8)), register(5, 4)
    reading: Cell = kind, {"WCLK": [0], address: [8], output: [5]}
    writing: Cell = kind, {"WCLK": [0], "DI": [8], output: [5]}
    assert whole_path({}, *before, reading, after).delay == pytest.approx(TO + 2 * LEVEL + UNTIL)
    stop = XC7["net"] + XC7["setup"]["lutram"]
    assert whole_path({}, *before, writing, after).delay == pytest.approx(TO + LEVEL + stop)


def test_a_block_memory_ends_a_path_and_begins_another() -> None:
    block: Cell = "RAMB18E1", {"CLKARDCLK": [0], "ADDRARDADDR": [3], "DOADO": [5]}
    path = whole_path({}, register(9, 3), table(3, 8), block, register(5, 4))
    assert path.delay == pytest.approx(XC7["clock_to"]["bram"] + UNTIL)


def test_a_register_in_which_a_value_waits_counts_in_a_recurrence() -> None:
    """State, logic, a value that waits, logic, back: two clocks for two iterations, not both paths in one."""
    cells = [register(4, 1), table(1, 2), register(2, 3), table(3, 4)]
    graph = graph_of(cells, {"1": "s0[0]", "3": "n7_1[0]"})
    path, recurrence = longest_path(graph), recurrence_clock(graph)
    assert path is not None
    assert path.delay == pytest.approx(TO + LEVEL + UNTIL)
    assert recurrence.period == pytest.approx(path.delay)


def test_a_register_in_which_a_value_waits_for_a_clock_of_a_longer_interval_counts_none() -> None:
    """At interval 2 both paths are of one iteration."""
    cells = [register(4, 1), table(1, 2), register(2, 3), table(3, 4)]
    graph = graph_of(cells, {"1": "s0[0]", "3": "n7_1[0]"}, interval=2)
    assert recurrence_clock(graph, 2).period == pytest.approx((TO + 2 * LEVEL + 2 * UNTIL) / 2)


@pytest.mark.parametrize(
    ("enables", "end"),
    [
        (("CEA2", "CEM", "CEP"), XC7["setup"]["dsp"]),
        (("CEM", "CEP"), XC7["dsp"]["factor_setup"]),
        (("CEP",), XC7["dsp"]["product_setup"]),
    ],
)
def test_a_path_ends_at_the_first_register_of_a_dsp_block(enables: tuple[str, ...], end: float) -> None:
    block: Cell = "DSP48E1", {"A": [2], "P": [3], **{enable: ["1"] for enable in enables}}
    path = longest_path(graph_of([register(9, 1), table(1, 2), block], {"1": "s0[0]"}))
    assert path is not None
    assert path.delay == pytest.approx(TO + LEVEL + XC7["net"] + end)
    assert path.end.name == "DSP block"


@pytest.mark.parametrize(
    ("enables", "begin"),
    [
        (("CEM", "CEP"), XC7["clock_to"]["dsp"]),
        (("CEM",), XC7["dsp"]["product_to"]),
        (("CEB2",), XC7["clock_to"]["dsp"] + XC7["dsp"]["product"]),
    ],
)
def test_a_path_out_of_a_dsp_block_begins_at_its_last_register(enables: tuple[str, ...], begin: float) -> None:
    block: Cell = "DSP48E1", {"B": [1], "P": [2], **{enable: ["1"] for enable in enables}}
    graph = graph_of([block, table(2, 3), register(3, 4)], {"4": "s0[0]"})
    path = longest_path(graph)
    assert path is not None
    assert path.delay == pytest.approx(begin + LEVEL + UNTIL)


@pytest.mark.parametrize(("others", "name"), [([], "cascade"), ([register(2, 5)], "sum")])
def test_a_result_that_only_another_block_adds_takes_the_cascade(others: list[Cell], name: str) -> None:
    """Without the wire between blocks; a result that somebody else reads leaves its block."""
    first: Cell = "DSP48E1", {"P": [2], "CEM": ["1"]}
    second: Cell = "DSP48E1", {"C": [2, 2], "P": [3], "CEM": ["1"]}
    path = longest_path(graph_of([first, second, register(3, 4), *others], {"4": "s0[0]", "5": "s1[0]"}))
    assert path is not None
    wire = XC7["net"] if name == "sum" else 0.0
    assert path.delay == pytest.approx(XC7["dsp"]["product_to"] + wire + XC7["dsp"][name] + UNTIL)
