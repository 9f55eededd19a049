"""Static timing of a mapped design: its longest path between registers, and the least clock that its recurrences allow.

The parts of a design are mapped one by one; here their cells become one graph of nets with delays between them. Paths
begin at registers, memories and ports and end there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from bfpga.synthesis.body import Opcode, Place
from bfpga.synthesis.netlist.interpret import EXTERNAL
from bfpga.synthesis.netlist.mapped import Bit, MappedModule
from bfpga.synthesis.netlist.verilog import Design

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class End:
    """A register bit, port or memory at the end of a path. ``place``: the source line of what it holds."""

    name: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Path:
    """A path: ns from clock to clock, levels of logic, and where it begins and ends."""

    delay: float
    levels: int
    begin: End
    end: End


@dataclass(frozen=True, slots=True)
class RecurrenceClock:
    """The least clock in ns at the design's interval, however it is pipelined; ``cycle``: registers it goes through."""

    period: float
    cycle: tuple[End, ...] = ()


@dataclass(slots=True)
class NetGraph:
    """Nets of a design. Arcs ``source -> target`` with ``delay`` and whether they are a level of logic.

    ``starts``: ns after the clock at which nets begin, by net; ``stops``: nets with ns before the clock, and the end.
    ``registers``: net of each bit of loop-carried state, with the (net, ns) that it takes its next value from.
    """

    count: int = 0
    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    delay: list[float] = field(default_factory=list)
    level: list[int] = field(default_factory=list)
    starts: dict[int, float] = field(default_factory=dict)
    stops: list[tuple[int, float, End]] = field(default_factory=list)
    ends: dict[int, End] = field(default_factory=dict)
    registers: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    #: Registers in which values wait, as arcs: a recurrence of several clocks goes through them.
    rows: list[tuple[int, int, float]] = field(default_factory=list)

    def arc(self, source: int, target: int, delay: float, level: int = 0) -> None:
        self.source.append(source)
        self.target.append(target)
        self.delay.append(delay)
        self.level.append(level)


def cell_delays(family: str) -> Mapping[str, Any]:
    """The table of a device family."""
    text = resources.files(__package__).joinpath("cell_delays.yaml").read_text(encoding="utf-8")
    table: Mapping[str, Any] = yaml.safe_load(text)[family]
    return table


def longest_path(graph: NetGraph) -> Path | None:
    """The longest path between two clocks; None for a design without one."""
    order = _Levels(graph)
    arrival, before = order.longest(graph.starts)
    stops = [(arrival[net] + delay, net, end) for net, delay, end in graph.stops if arrival[net] > -np.inf]
    if not stops:
        return None
    delay, net, end = max(stops, key=lambda stop: stop[0])
    begin, levels = order.trace(net, before)
    return Path(float(delay), levels, graph.ends.get(begin, End("")), end)


def recurrence_clock(graph: NetGraph, interval: int = 1) -> RecurrenceClock:
    """The least clock of the loop's recurrences: most ns around a cycle through registers of state, for each iteration
    that it spans.

    Howard's algorithm: every register bit follows one bit that it waits for; the worst cycle of these gives a clock,
    and registers follow another bit as long as one makes them wait longer at this clock.
    """
    order = _Levels(graph, rows=True)
    bits = list(graph.registers)
    number = {net: index for index, net in enumerate(bits)}
    period, cycle = 0.0, list[int]()
    potential = np.zeros(len(bits))
    for _ in range(60):
        begin = {net: graph.starts.get(net, 0.0) + potential[number[net]] for net in bits}
        arrival, before = order.longest(begin)
        worst = np.full(len(bits), -np.inf)
        chosen = np.full(len(bits), -1, dtype=np.int64)
        last = np.full(len(bits), -1, dtype=np.int64)
        for index, net in enumerate(bits):
            for data, setup in graph.registers[net]:
                if arrival[data] + setup > worst[index]:
                    worst[index], last[index] = arrival[data] + setup, data
        for index in np.flatnonzero(last >= 0):
            origin, _ = order.trace(int(last[index]), before)
            chosen[index] = number[origin]
        weight = np.array(
            [worst[index] - potential[chosen[index]] if chosen[index] >= 0 else -np.inf for index in range(len(bits))]
        )
        mean, found = _worst_cycle(chosen, weight)
        if mean <= period + 1e-6:
            break
        period, cycle = mean, found
        potential = _potentials(chosen, weight, period, found)
    ends = [graph.ends[bits[index]] for index in cycle]
    return RecurrenceClock(period / interval, tuple(dict.fromkeys(ends)))


def _worst_cycle(follows: Ints, weight: Floats) -> tuple[float, list[int]]:
    """Greatest mean weight of a cycle of a graph in which every node follows one, with its nodes."""
    best, nodes = 0.0, list[int]()
    seen = np.zeros(len(follows), dtype=np.int64)
    for start in range(len(follows)):
        walk: list[int] = []
        node = start
        while node >= 0 and not seen[node]:
            seen[node] = start + 1
            walk.append(node)
            node = int(follows[node])
        if node >= 0 and seen[node] == start + 1:
            cycle = walk[walk.index(node) :]
            mean = float(sum(weight[index] for index in cycle) / len(cycle))
            if mean > best:
                best, nodes = mean, cycle
    return best, nodes


def _potentials(follows: Ints, weight: Floats, period: float, cycle: list[int]) -> Floats:
    """How much later than one node of the worst cycle each node is, if each waits for the one it follows."""
    result = np.full(len(follows), np.nan)
    result[cycle[0]] = 0.0
    for start in range(len(follows)):
        walk: list[int] = []
        node = start
        while node >= 0 and np.isnan(result[node]) and node not in walk:
            walk.append(node)
            node = int(follows[node])
        known = result[node] if node >= 0 and not np.isnan(result[node]) else 0.0
        for index in reversed(walk):
            known = max(known + weight[index] - period, -1e6) if np.isfinite(weight[index]) else 0.0
            result[index] = known
    return result


class _Levels:
    """Arcs in an order in which the nets before a net are done before it, as arrays."""

    def __init__(self, graph: NetGraph, rows: bool = False) -> None:
        self.graph = graph
        waits = graph.rows if rows else []
        source = np.array(graph.source + [data for data, _, _ in waits], dtype=np.int64)
        target = np.array(graph.target + [net for _, net, _ in waits], dtype=np.int64)
        delay = np.array(graph.delay + [time for _, _, time in waits])
        levels = np.array(graph.level + [0] * len(waits), dtype=np.int64)
        depth = np.zeros(graph.count, dtype=np.int64)
        if len(source):
            depth = _depths(graph.count, source, target)
        order = np.lexsort((target, depth[target])) if len(source) else np.zeros(0, dtype=np.int64)
        self.source, self.target = source[order], target[order]
        self.delay, self.level = delay[order], levels[order]
        level = depth[self.target]
        self.bounds = np.flatnonzero(np.r_[True, level[1:] != level[:-1], True]) if len(source) else np.zeros(1, int)

    def longest(self, starts: Mapping[int, float]) -> tuple[Floats, Ints]:
        """Latest arrival at every net (-inf: none) from nets that begin at given times, and the arc by which it comes
        (-1: the net begins itself)."""
        arrival = np.full(self.graph.count, -np.inf)
        for net, time in starts.items():
            arrival[net] = time
        before = np.full(self.graph.count, -1, dtype=np.int64)
        for first, end in zip(self.bounds[:-1], self.bounds[1:], strict=True):
            target = self.target[first:end]
            value = arrival[self.source[first:end]] + self.delay[first:end]
            heads = np.flatnonzero(np.r_[True, target[1:] != target[:-1]])
            most = np.maximum.reduceat(value, heads)
            sizes = np.diff(np.r_[heads, len(target)])
            places = np.flatnonzero(value == np.repeat(most, sizes))
            arcs = places[np.searchsorted(places, heads)]
            nets = target[heads]
            later = most > arrival[nets]
            arrival[nets[later]] = most[later]
            before[nets[later]] = first + arcs[later]
        return arrival, before

    def trace(self, net: int, before: Ints) -> tuple[int, int]:
        """The net at which the latest path to a net begins, and its levels of logic."""
        levels = 0
        while before[net] >= 0:
            levels += int(self.level[before[net]])
            net = int(self.source[before[net]])
        return net, levels


def _depths(count: int, source: Ints, target: Ints) -> Ints:
    """Most arcs before each net; what lies in a circle without a register has an order of its own."""
    depth = np.zeros(count, dtype=np.int64)
    waiting = np.bincount(target, minlength=count)
    order = np.argsort(source, kind="stable")
    heads = np.searchsorted(source[order], np.arange(count + 1))
    ready = np.flatnonzero(waiting == 0)
    step = 0
    while len(ready):
        depth[ready] = step
        arcs = np.concatenate([order[heads[net] : heads[net + 1]] for net in ready])
        reached, times = np.unique(target[arcs], return_counts=True)
        waiting[reached] -= times
        ready = reached[waiting[reached] == 0]
        step += 1
    return depth


# From cells to arcs


def net_graph(design: Design, mapped: Mapping[str, MappedModule], family: str = "xc7") -> NetGraph:
    """The graph of a design whose modules are mapped for a family."""
    return _Stitching(design, mapped, cell_delays(family)).graph


class _Stitching:
    def __init__(self, design: Design, mapped: Mapping[str, MappedModule], delays: Mapping[str, Any]) -> None:
        self.design, self.delays = design, delays
        self.graph = NetGraph()
        self._nets: dict[tuple[str, int], int] = {}
        self._ports()
        for instance in design.instances:
            _Cells(self, instance.name, instance.origins, mapped[instance.module]).add()
            module = mapped[instance.module]
            for port, net in instance.inputs.items():
                self._connect(net, instance.name, module.ports.get(port, []), inwards=True)
            for port, net in instance.outputs.items():
                self._connect(net, instance.name, module.ports.get(port, []), inwards=False)
        self._memories()

    def net(self, owner: str, bit: int) -> int:
        key = (owner, bit)
        if key not in self._nets:
            self._nets[key] = self.graph.count
            self.graph.count += 1
        return self._nets[key]

    def origin(self, index: int) -> End:
        """Name and place of an operation, or of a register given as its complement."""
        body = self.design.body
        if index < 0:
            register = body.registers[~index]
            return End(register.name, register.place)
        operation = body.operations[index]
        return End(operation.name or operation.opcode.value, operation.place)

    def _connect(self, net: str, owner: str, bits: list[Bit], inwards: bool) -> None:
        for place, bit in enumerate(bits):
            if isinstance(bit, int):
                outer, inner = self.net(net, place), self.net(owner, bit)
                self.graph.arc(*((outer, inner) if inwards else (inner, outer)), 0.0)

    def _ports(self) -> None:
        """Values from outside begin at registers, or where their memory or stream puts them out."""
        body, pipeline, clock = self.design.body, self.design.pipeline, self.delays["clock_to"]
        for net, _ in self.design.inputs.values():
            span = self.design.nets[net]
            index = int(net.rsplit("_", 1)[1])
            data = net.startswith("from_data")
            time = clock["register"]
            if data and body.operations[index].opcode is Opcode.MEMORY_READ:
                latency = pipeline.latency(index)
                time = (clock["lutram"], clock["bram"], clock["register"])[min(latency, 2)]
            end = self.origin(index if data else ~index)
            for bit in range(span.high - span.low):
                self.graph.starts[self.net(net, bit)] = time
                self.graph.ends[self.net(net, bit)] = end

    def _memories(self) -> None:
        """Operands of accesses end at a memory or a register; a memory in look-up tables is read in the same clock."""
        body, pipeline, setup = self.design.body, self.design.pipeline, self.delays["setup"]
        for name, net in self.design.outputs.items():
            if not name.startswith("operand_"):
                continue
            index = int(name.split("_")[1])
            operation = body.operations[index]
            span = self.design.nets[net]
            kind = "bram" if operation.memory >= 0 and pipeline.latency(index) else "register"
            end = self.origin(index)
            if operation.memory >= 0:
                end = End(body.memories[operation.memory].name, operation.place)
            through = operation.opcode in EXTERNAL and operation.memory >= 0 and pipeline.latency(index) == 0
            data = f"from_data_{index}"
            for bit in range(span.high - span.low):
                begin = self.net(net, bit)
                self.graph.stops.append((begin, self.delays["net"] + setup[kind], end))
                if through and data in self.design.nets:
                    out = self.design.nets[data]
                    for place in range(out.high - out.low):
                        delay = self.delays["net"] + self.delays["lut"]
                        self.graph.arc(begin, self.net(data, place), delay, 1)


class _Cells:
    """Arcs of one instance's cells."""

    def __init__(self, stitching: _Stitching, owner: str, origins: Mapping[str, int], module: MappedModule) -> None:
        self.all, self.owner, self.origins, self.module = stitching, owner, origins, module
        self.graph, self.delays = stitching.graph, stitching.delays
        self.tables: set[Bit] = set()
        self.carries: set[Bit] = set()
        for kind, ports in module.cells:
            if kind == "$lut":
                self.tables.update(ports["Y"])
            elif kind.startswith("CARRY"):
                self.carries.update(ports["CO"])

    def add(self) -> None:
        for kind, ports in self.module.cells:
            if kind == "$lut":
                self._through(ports["A"], ports["Y"], self.delays["net"] + self.delays["lut"], 1)
            elif kind.startswith("CARRY"):
                self._carry(ports)
            elif kind.startswith("FD"):
                self._register(ports)
            elif kind.startswith("DSP48"):
                self._dsp(ports)
            elif kind.startswith(("SRL", "RAM")):
                self._stored(kind, ports)
            elif kind in ("$_NOT_", "INV"):
                self._through(ports.get("A", ports.get("I", [])), ports.get("Y", ports.get("O", [])), 0.0, 0)
            elif kind.startswith("MUXF"):
                self._through([*ports["I0"], *ports["I1"], *ports["S"]], ports["O"], self.delays["wide_mux"], 0)
            else:
                raise ValueError(f"{self.owner}: cell {kind} has no delays in cell_delays.yaml")

    def _bits(self, bits: list[Bit]) -> Iterator[int]:
        return (self.all.net(self.owner, bit) for bit in bits if isinstance(bit, int))

    def _through(self, inputs: list[Bit], outputs: list[Bit], delay: float, level: int) -> None:
        for output in self._bits(outputs):
            for net in self._bits(inputs):
                self.graph.arc(net, output, delay, level)

    def _carry(self, ports: Mapping[str, list[Bit]]) -> None:
        """From each operand bit into the chain, along it, and out of it to a sum or a carry."""
        carry, general = self.delays["carry"], self.delays["net"] + self.delays["lut"]
        chain = [bit for port in ("CI", "CYINIT", "CI_TOP") for bit in ports.get(port, [])]
        for port in ("O", "CO"):
            out = carry["out"] if port == "O" else 0.0
            for place, output in enumerate(ports.get(port, [])):
                if not isinstance(output, int):
                    continue
                net = self.all.net(self.owner, output)
                for name in ("S", "DI"):
                    for entry_place, bit in enumerate(ports[name][: place + (port == "CO" or name == "S")]):
                        hops = place - entry_place
                        own = 0.0 if bit in self.tables else general
                        delay = own + carry["in"] + carry["four"] * hops / 4 + out
                        self._through([bit], [output], delay, 1)
                for bit in chain:
                    joined = bit in self.carries
                    entry = 0.0 if joined else self.delays["net"] + carry["in"]
                    delay = entry + carry["four"] * (place + 1) / 4 + out
                    for begin in self._bits([bit]):
                        self.graph.arc(begin, net, delay, 0 if joined else 1)

    def _end(self, bit: Bit) -> End:
        name = self.module.names.get(str(bit), "")
        origin = self.origins.get(name.split("[")[0].split("_")[0])
        if origin is None:
            return End(name or "control")
        found = self.all.origin(origin)
        place = name[name.index("[") :] if "[" in name else ""
        return End(found.name + place, found.place)

    def _register(self, ports: Mapping[str, list[Bit]]) -> None:
        setup, output = self.delays["setup"], ports["Q"][0]
        if not isinstance(output, int):
            return
        net = self.all.net(self.owner, output)
        end = self._end(output)
        self.graph.starts[net] = self.delays["clock_to"]["register"]
        self.graph.ends[net] = end
        inputs = [(data, self.delays["net"] + setup["register"]) for data in self._bits(ports["D"])]
        for port in ("CE", "R", "S"):
            inputs += [(data, self.delays["net"] + setup["enable"]) for data in self._bits(ports.get(port, []))]
        self.graph.stops += [(data, delay, end) for data, delay in inputs]
        name = self.module.names.get(str(output), "")
        if re.match(r"s\d+\[", name):
            self.graph.registers[net] = inputs
        elif re.match(r"[sn]\d+_", name):
            self.graph.rows += [(data, net, delay) for data, delay in inputs[:1]]

    def _stored(self, kind: str, ports: Mapping[str, list[Bit]]) -> None:
        """Shift registers and memories: they begin and end paths; what they put out begins with the clock."""
        group = "srl" if kind.startswith("SRL") else "bram" if kind.startswith("RAMB") else "lutram"
        outputs = ("Q", "Q31", "DOADO", "DOBDO", "DOPADOP", "DOPBDOP", "O", "DPO", "SPO", "DOA", "DOB", "DOC", "DOD")
        for port, bits in ports.items():
            if port in outputs or port.startswith(("DOUT", "CAS")):
                for bit, net in zip([bit for bit in bits if isinstance(bit, int)], self._bits(bits), strict=True):
                    self.graph.starts[net] = self.delays["clock_to"][group]
                    self.graph.ends[net] = self._end(bit)
            elif "CLK" not in port and port != "C":
                delay = self.delays["net"] + self.delays["setup"][group]
                self.graph.stops += [(net, delay, End(kind)) for net in self._bits(bits)]

    def _dsp(self, ports: Mapping[str, list[Bit]]) -> None:
        """A DSP block whose result is a register (clock enable connected) ends paths; else they go through it."""
        dsp, net_delay = self.delays["dsp"], self.delays["net"]
        registered = any(isinstance(bit, int) for bit in ports.get("CEP", [])) or ports.get("CEP") == ["1"]
        outputs = [bit for port in ("P", "PCOUT", "CARRYOUT") for bit in ports.get(port, [])]
        for port in ("A", "B", "C", "D", "PCIN", "CARRYIN"):
            name = "sum" if port in ("C", "CARRYIN") else "cascade" if port == "PCIN" else "product"
            before = 0.0 if port == "PCIN" else net_delay
            for net in self._bits(ports.get(port, [])):
                if registered:
                    stop = dsp.get(f"{name}_setup", dsp["sum_setup"])
                    self.graph.stops.append((net, before + stop, End("DSP block")))
                else:
                    for output in self._bits(outputs):
                        self.graph.arc(net, output, before + dsp[name], 1)
        if registered:
            for bit in outputs:
                for net in self._bits([bit]):
                    self.graph.starts[net] = self.delays["clock_to"]["dsp"]
                    self.graph.ends[net] = self._end(bit)
