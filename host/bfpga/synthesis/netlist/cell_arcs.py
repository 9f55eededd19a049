"""Mapped cells as a graph of nets with delays between them, which `timing` measures.

The parts of a loop are mapped one by one; here their cells become one graph. An IP is mapped in one piece.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import yaml

from bfpga.synthesis.body import Opcode
from bfpga.synthesis.netlist.interpret import EXTERNAL
from bfpga.synthesis.netlist.mapped import Bit, MappedModule
from bfpga.synthesis.netlist.timing import End, NetGraph
from bfpga.synthesis.netlist.verilog import Design


def cell_delays(family: str) -> Mapping[str, Any]:
    """The table of a device family."""
    text = resources.files(__package__).joinpath("cell_delays.yaml").read_text(encoding="utf-8")
    table: Mapping[str, Any] = yaml.safe_load(text)[family]
    return table


def net_graph(design: Design, mapped: Mapping[str, MappedModule], family: str = "xc7") -> NetGraph:
    """The graph of a design whose modules are mapped for a family."""
    return _Stitching(design, mapped, cell_delays(family)).graph


def whole_graph(module: MappedModule, family: str = "xc7") -> NetGraph:
    """The graph of an IP mapped in one piece; other IPs and the host have registers at its ports."""
    nets = _Nets(cell_delays(family))
    _Cells(nets, "", {}, module).add()
    graph = nets.graph
    driven = {*graph.target, *graph.starts}
    for name, bits in module.ports.items():
        for bit in bits:
            if isinstance(bit, int):
                net, end = nets.net("", bit), End(name)
                if net in driven:
                    graph.stops.append((net, nets.delays["net"] + nets.delays["setup"]["register"], end))
                else:
                    graph.starts[net], graph.ends[net] = nets.delays["clock_to"]["register"], end
    return graph


class _Nets:
    """A graph that grows, with the numbers of its nets. ``interval``: of the loop that it is."""

    def __init__(self, delays: Mapping[str, Any], interval: int = 1) -> None:
        self.delays, self.interval = delays, interval
        self.graph = NetGraph()
        self._nets: dict[tuple[str, int], int] = {}

    def net(self, owner: str, bit: int) -> int:
        key = (owner, bit)
        if key not in self._nets:
            self._nets[key] = self.graph.count
            self.graph.count += 1
        return self._nets[key]


class _Stitching(_Nets):
    def __init__(self, design: Design, mapped: Mapping[str, MappedModule], delays: Mapping[str, Any]) -> None:
        super().__init__(delays, design.pipeline.interval)
        self.design = design
        self._ports()
        for instance in design.instances:
            ends = {name: self.origin(index) for name, index in instance.origins.items()}
            _Cells(self, instance.name, ends, mapped[instance.module]).add()
            module = mapped[instance.module]
            for port, net in instance.inputs.items():
                self._connect(net, instance.name, module.ports.get(port, []), inwards=True)
            for port, net in instance.outputs.items():
                self._connect(net, instance.name, module.ports.get(port, []), inwards=False)
        self._memories()

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
        """Operands of accesses end at a memory or a register; a memory in look-up tables is read in the same cycle."""
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
    """Arcs of one instance's cells. ``ends``: what its registers are, by their names."""

    def __init__(self, nets: _Nets, owner: str, ends: Mapping[str, End], module: MappedModule) -> None:
        self.all, self.owner, self.ends, self.module = nets, owner, ends, module
        self.graph, self.delays = nets.graph, nets.delays
        self.tables: set[Bit] = set()
        self.carries: set[Bit] = set()
        for kind, ports in module.cells:
            if kind == "$lut":
                self.tables.update(ports["Y"])
            elif kind.startswith("CARRY"):
                self.carries.update(ports["CO"])
        self.cascades = _cascades(module)

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
            elif kind.startswith(("SRL", "RAM", "URAM")):
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
        found = self.ends.get(name.split("[")[0].split("_")[0])
        if found is None:
            return End(name or "control")
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
        waits = re.match(r"[sn]\d+_", name) is not None
        if waits and self.all.interval > 1:
            self.graph.rows += [(data, net, delay) for data, delay in inputs[:1]]
        elif waits or re.match(r"s\d+\[", name):
            self.graph.registers[net] = inputs

    def _stored(self, kind: str, ports: Mapping[str, list[Bit]]) -> None:
        """Shift registers and memories: they begin and end paths; what they put out begins with the clock."""
        blocks = kind.startswith(("RAMB", "URAM"))
        group = "srl" if kind.startswith("SRL") else "bram" if blocks else "lutram"
        outputs = ("Q", "Q31", "O", "DPO", "SPO")
        for port, bits in ports.items():
            if port in outputs or port.startswith(("DO", "CAS")):
                for bit, net in zip([bit for bit in bits if isinstance(bit, int)], self._bits(bits), strict=True):
                    self.graph.starts[net] = self.delays["clock_to"][group]
                    self.graph.ends[net] = self._end(bit)
            elif "CLK" not in port and port != "C":
                delay = self.delays["net"] + self.delays["setup"][group]
                self.graph.stops += [(net, delay, End(kind)) for net in self._bits(bits)]
        for output, addresses in _asynchronous(ports) if group == "lutram" else ():
            self._through(addresses, ports[output], self.delays["net"] + self.delays["lut"], 1)

    def _dsp(self, ports: Mapping[str, list[Bit]]) -> None:
        """A path into a DSP block ends at its first register: of a factor, of the product, of the result. One out of it
        begins at its last. A register is used where its clock enable is connected."""
        dsp, setup, clock = self.delays["dsp"], self.delays["setup"], self.delays["clock_to"]
        enables = (port for port in ports if port.startswith("CE"))
        used = {port for port in enables if any(bit == "1" or isinstance(bit, int) for bit in ports[port])}
        outputs = [bit for port in ("P", "PCOUT", "CARRYOUT") for bit in ports.get(port, [])]
        begin = clock["dsp"] if "CEP" in used else dsp["product_to"] if "CEM" in used else None
        for port in ("A", "B", "C", "D", "PCIN", "CARRYIN", "OPMODE"):
            # The operating mode selects what is added: the way of an addend, from its multiplexer on.
            name = "sum" if port in ("C", "CARRYIN", "OPMODE") else "cascade" if port == "PCIN" else "product"
            if port == "C" and "CEC" not in used and self.cascades.issuperset(ports.get(port, [])):
                name = "cascade"
            stop = None
            if used & {f"CE{port}", f"CE{port}1", f"CE{port}2"}:
                stop = setup["dsp"]
                inside = clock["dsp"] + dsp[name]
                begin = max(begin or 0.0, inside) if not used & {"CEM", "CEP"} else begin
            elif name == "product" and "CEM" in used:
                stop = dsp["factor_setup"]
            elif "CEP" in used:
                stop = dsp[f"{name}_setup"]
            before = 0.0 if name == "cascade" else self.delays["net"]
            for net in self._bits(ports.get(port, [])):
                if stop is not None:
                    self.graph.stops.append((net, before + stop, End("DSP block")))
                else:
                    for output in self._bits(outputs):
                        self.graph.arc(net, output, before + dsp[name], 1)
        for net in self._bits(ports.get("CEP", [])):
            self.graph.stops.append((net, self.delays["net"] + setup["dsp"], End("DSP block")))
        if begin is not None:
            for bit in outputs:
                for net in self._bits([bit]):
                    self.graph.starts[net] = begin
                    self.graph.ends[net] = self._end(bit)


def _asynchronous(ports: Mapping[str, list[Bit]]) -> Iterator[tuple[str, list[Bit]]]:
    """Outputs of a memory in look-up tables, each with the bits of the address whose word it shows at once."""
    for output in ports:
        if output in ("O", "SPO", "DPO") or output.startswith("DO"):
            begin = {"O": r"A\d*$", "SPO": r"A\d*$", "DPO": r"DPRA\d*$"}.get(output, f"ADDR{output[2:]}$")
            yield output, [bit for port, bits in ports.items() if re.match(begin, port) for bit in bits]


def _cascades(module: MappedModule) -> set[Bit]:
    """Nets from the result of a DSP block to the addend of another one that nothing else reads.

    They take the cascade between two blocks (UG479, UG579: PCOUT and PCIN), which Yosys finds only after a block
    without an addend of its own.
    """
    blocks = [ports for kind, ports in module.cells if kind.startswith("DSP48")]
    made = {bit: (number, place) for number, ports in enumerate(blocks) for place, bit in enumerate(ports["P"])}
    readers: Counter[Bit] = Counter(bit for bits in module.ports.values() for bit in set(bits))
    for kind, ports in module.cells:
        for port, bits in ports.items():
            if not kind.startswith("DSP48") or port != "P":
                readers.update(set(bits))
    found: set[Bit] = set()
    for ports in blocks:
        addend = ports.get("C", [])
        sources = [made.get(bit, (-1, -1)) for bit in addend]
        # Bit by bit, and its highest one again in those above.
        top = max((place for _, place in sources), default=-1)
        is_result = all(source == (sources[0][0], min(place, top)) for place, source in enumerate(sources))
        if top >= 0 and is_result and all(readers[bit] == 1 for bit in addend):
            found.update(addend)
    return found
