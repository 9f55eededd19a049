"""Verilog of an IP from its scheduled bodies: their control, what they share, memories, streams and start.

One body runs at a time. ``at`` says which; ``entered`` is 0 in the cycle in which it takes its first words. A body has
ended when its pipeline is empty; what it has computed is then taken into the registers of the IP, and the edge by which
it was left says which body follows. All stages of a body stand still while one of its beats is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.registers import ARGUMENT_REGISTERS
from bfpga.errors import ToolError
from bfpga.rtl.memories import Access, Bank, bank_modules, bank_pins, banks_of
from bfpga.rtl.names import Names, instance_text, unused
from bfpga.rtl.values import Bits, SharedValues
from bfpga.synthesis.body import LoopBody, Opcode
from bfpga.synthesis.delays import technology_of
from bfpga.synthesis.driver import clock_of
from bfpga.synthesis.frontend.kernel import IpCode, analyse_ip
from bfpga.synthesis.frontend.segments import RETURN, Edge
from bfpga.synthesis.netlist.expressions import fitted, literal, vector
from bfpga.synthesis.netlist.pipeline import Pipeline
from bfpga.synthesis.netlist.verilog import Design, translate
from bfpga.synthesis.schedule import schedule_loop, schedule_segment
from bfpga.vendor.kernel_ips import KernelIp, StreamPort

NEVER = "1'b0"
#: What the number of no body is called.
IDLE = "IDLE"
SLICE_NAME, REGISTER_NAME = "bfpga_axis_slice", "bfpga_axis_register"
_SLICE_PORTS = """\
    input clk, input reset,
    input [WIDTH-1:0] in_data, input in_valid, output in_ready,
    output [WIDTH-1:0] out_data, output out_valid, input out_ready);"""
#: Between an IP and the host.
SLICE = f"""\
// Two words between two handshakes; nothing combinational leads from one side to the other.
module {SLICE_NAME} #(parameter WIDTH = 8) (
{_SLICE_PORTS}
reg [WIDTH-1:0] first = 0, second = 0;
reg has_first = 1'b0, has_second = 1'b0;
assign in_ready = ~has_second;
assign out_valid = has_first;
assign out_data = first;
wire taken = in_valid & ~has_second;
wire free = out_ready | ~has_first;
always @(posedge clk) begin
    if (free) first <= has_second ? second : in_data;
    if (taken & ~free) second <= in_data;
    if (reset) begin
        has_first <= 1'b0;
        has_second <= 1'b0;
    end else begin
        has_first <= free ? has_second | taken : 1'b1;
        has_second <= has_second ? ~free : taken & ~free;
    end
end
endmodule
"""
#: Between an IP and the FIFO behind it, whose readiness is a register.
REGISTER = f"""\
// A word between two handshakes; readiness alone passes through.
module {REGISTER_NAME} #(parameter WIDTH = 8) (
{_SLICE_PORTS}
reg [WIDTH-1:0] word = 0;
reg has_word = 1'b0;
assign in_ready = out_ready | ~has_word;
assign out_valid = has_word;
assign out_data = word;
always @(posedge clk) begin
    if (in_ready) word <= in_data;
    has_word <= ~reset & (in_ready ? in_valid : 1'b1);
end
endmodule
"""


@dataclass(frozen=True)
class IpVerilog:
    """Verilog of an IP. ``modules``: text by name, those that are used first; the last one has the ports.

    ``intervals``: of its pipelined loops, by their labels; the longest where a loop is there several times.
    """

    ip: KernelIp
    modules: Mapping[str, str]
    intervals: Mapping[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(self.modules.values())


def ip_verilog(accelerator: Accelerator, ip: KernelIp, files: Mapping[str, str]) -> IpVerilog:
    """Verilog of one IP of an accelerator's kernel. ``files``: the kernel's sources (`kernel_files`).

    Raises:
        ToolError: clang is missing or refuses the kernel; code that has no place in hardware.
    """
    code = analyse_ip(files, ip.source)
    names = Names(files)
    clock, part = clock_of(accelerator, ip.part), accelerator.board.part
    bodies = code.bodies.bodies
    schedules = [
        (schedule_loop if is_loop else schedule_segment)(body, part, clock)
        for body, is_loop in zip(bodies, code.bodies.is_loop, strict=True)
    ]
    intervals: dict[str, int] = {}
    for body, schedule, is_loop in zip(bodies, schedules, code.bodies.is_loop, strict=True):
        if is_loop:
            intervals[body.name] = max(schedule.interval, intervals.get(body.name, 0))
    blocks = [{each.register for each in schedule.accumulators} for schedule in schedules]
    frozen = [Pipeline(body, schedule).frozen for body, schedule in zip(bodies, schedules, strict=True)]
    shared = SharedValues(code, names, blocks, frozen)
    designs = [
        translate(body, schedule, None, shared.loads[k], shared.resets[k], shared.outside[k])
        for k, (body, schedule) in enumerate(zip(bodies, schedules, strict=True))
    ]
    banks, ports = banks_of(designs, technology_of(part), code.power_on.words, code.visible)
    wrapper = _Wrapper(ip, code, shared, designs, banks, ports, names)
    lines = list(wrapper.lines())
    modules: dict[str, str] = {}
    for number, design in enumerate(designs):
        wrapper.leave_unused_open(number)
        modules.update(names.parts(design))
        modules[wrapper.module_of(number)], wrapper.ports[number] = names.body(design, wrapper.module_of(number))
    for bank in banks:
        modules.update(bank_modules(f"{ip.function}_{bank.name}", bank))
    for name, text in ((SLICE_NAME, SLICE), (REGISTER_NAME, REGISTER)):
        if any(_border_module(port) == name for port in ip.streams if port.master):
            modules[name] = text
    modules[wrapper.name] = "\n".join([*lines, *wrapper.instances(), "endmodule", ""])
    return IpVerilog(ip, modules, intervals)


def _border_module(port: StreamPort) -> str:
    """The module behind an output: what has TLAST goes to the host, all else to a FIFO."""
    return SLICE_NAME if port.packets else REGISTER_NAME


class _Wrapper:
    def __init__(
        self, ip: KernelIp, code: IpCode, shared: SharedValues, designs: Sequence[Design], banks: Sequence[Bank],
        ports: Mapping[Access, tuple[str, int]], names: Names,
    ) -> None:  # fmt: skip
        self.ip, self.code, self.shared, self.designs, self.banks = ip, code, shared, designs, banks
        self.names = names
        #: Wires between the bodies and the IP by body and port, and the outputs among them that are used.
        self.nets: dict[tuple[int, str], str] = {}
        self.used: set[tuple[int, str]] = set()
        #: Ports of the bodies' modules, by their numbers.
        self.ports: dict[int, Mapping[str, str]] = {}
        self.memory_ports = ports
        self.name = f"{ip.function}_core" if ip.control else ip.function
        self.inputs, self.outputs = self._arguments()
        self.bits = max(1, (len(designs)).bit_length())
        #: Names of expressions of which bits are taken.
        self.wires: dict[tuple[str, int], str] = {}

    def module_of(self, number: int) -> str:
        """The module of a body."""
        return f"{self.ip.function}_{self.designs[number].body.name}"

    def net(self, number: int, port: str) -> str:
        """The wire at a port of a body."""
        key = number, port
        self.used.add(key)
        if key not in self.nets:
            body = self.designs[number].body
            hint = f"{body.name.lower()}_{self.names.port(body, port)}"
            self.nets[key] = unused(hint, (), set(self.nets.values()))
        return self.nets[key]

    def leave_unused_open(self, number: int) -> None:
        """Take from a body the ports of what nobody reads."""
        design = self.designs[number]
        for name in [name for name in design.outputs if name != "busy" and (number, name) not in self.used]:
            del design.outputs[name]

    def number_of(self, number: int) -> str:
        """What the number of a body is called."""
        return self.designs[number].body.name.upper()

    def _arguments(self) -> tuple[dict[str, str], dict[str, str]]:
        """Arguments that are registers of the host: name in the flat code -> name, those read and those written."""
        names = {register.name for register in ARGUMENT_REGISTERS} if self.ip.control else set()
        written = set(self.shared.pieces)
        inputs: dict[str, str] = {}
        outputs: dict[str, str] = {}
        for argument, name in self.code.parameters.items():
            if name in names:
                (outputs if argument in written else inputs)[argument] = name
        return inputs, outputs

    def _invariant(self, number: int, index: int) -> str:
        """Expression of a value that a body is given."""
        body = self.designs[number].body
        operation = body.operations[index]
        origin = body.origins[operation.name]
        if origin.offset >= 0:
            low = 8 * origin.offset
            return self.shared.word_of(Bits(origin.root, low, low + operation.width))
        if operation.name in self.inputs:
            return f"{self.inputs[operation.name]}{vector(operation.width)}"
        source, exported = self.shared.exported(operation.name)
        known = self.designs[source].body.operations[exported]
        return self._cut(self._computed(source, exported), known.width, operation.width)

    def _computed(self, number: int, operation: int) -> str:
        """Expression of a value that a body has computed, after it has ended."""
        body = self.designs[number].body
        found = body.operations[operation]
        if found.opcode is Opcode.CONSTANT:
            return literal(found.value, found.width)
        if found.opcode is Opcode.INVARIANT:
            return self._invariant(number, operation)
        frozen = self.designs[number].pipeline.frozen
        for register, own in enumerate(body.registers):
            if own.next == operation or (own.current == operation and register in frozen):
                return self.net(number, f"state_{register}")
        return self.net(number, f"result_{operation}")

    def _cut(self, word: str, width: int, wanted: int) -> str:
        """An expression of ``width`` bits as one of ``wanted`` bits."""
        if width > wanted and not word.isidentifier():
            word = self.wires.setdefault((word, width), f"w{len(self.wires)}")
        return fitted(word, width, wanted)

    # -- text

    def lines(self) -> Iterator[str]:
        """The module with the ports."""
        yield f"// {self.name}: made from {self.ip.source}."
        ports = list(self._ports())
        yield f"module {self.name}(\n    " + ",\n    ".join(ports) + ");"
        yield "// Which body runs."
        for number, design in enumerate(self.designs):
            place, pipeline = design.body.place, design.pipeline
            said = f"{place}, interval {pipeline.interval}" if place.line else "between loops"
            word = literal(number, self.bits)
            name = f"{vector(self.bits)} {self.number_of(number)}"
            yield f"localparam {name} = {word}; // {said}, depth {pipeline.depth}"
        if self.ip.control:
            yield f"localparam {vector(self.bits)} {IDLE} = {literal(len(self.designs), self.bits)};"
        yield "wire reset = ~ap_rst_n;"
        yield f"reg {vector(self.bits)} at = {IDLE if self.ip.control else self.number_of(0)};"
        yield "reg entered = 1'b0;"
        yield f"wire {vector(len(self.designs))} start, ce, busy, done;"
        streams = [line for port in self.ip.streams for line in self._stream(port)]
        bodies = [line for number in range(len(self.designs)) for line in self._body(number)]
        rest = [*self._memories(), *self._enables(), *self._requests(), *self._control(), *self._updates()]
        outputs = list(self._outputs())
        declared = list(self._declared())
        yield from self._storage()
        yield from streams
        yield from declared
        for (word, width), name in self.wires.items():
            yield f"wire {vector(width)} {name} = {word};"
        yield from outputs
        yield from bodies
        yield from rest

    def instances(self) -> Iterator[str]:
        """The instances of the bodies, whose ports are known when their modules are made."""
        for number, design in enumerate(self.designs):
            pins = {"clk": "ap_clk"} | {name: f"{name}[{self.number_of(number)}]" for name in ("ce", "start")}
            pins |= {"reset": "reset", "busy": f"busy[{self.number_of(number)}]"}
            ports = self.ports[number]
            pins |= {
                ports[name]: self.nets[number, name] for name in (*design.inputs, *design.outputs) if name != "busy"
            }
            yield instance_text(self.module_of(number), f"{design.body.name.lower()}_body", pins)

    def _ports(self) -> Iterator[str]:
        yield "input ap_clk"
        yield "input ap_rst_n"
        if self.ip.control:
            yield from ("input ap_start", "output ap_done", "output ap_idle", "output ap_ready")
            yield from (f"input [31:0] {name}" for name in self.inputs.values())
            for name in self.outputs.values():
                yield from (f"output [31:0] {name}", f"output {name}_ap_vld")
        for port in self.ip.streams:
            into, out = ("output", "input") if port.master else ("input", "output")
            yield f"{into} {vector(port.bits)} {port.name}_TDATA"
            if port.packets:
                yield f"{into} {port.name}_TLAST"
            yield f"{into} {port.name}_TVALID"
            yield f"{out} {port.name}_TREADY"

    def _storage(self) -> Iterator[str]:
        """Registers of what bodies share."""
        for piece in self.shared.shared_pieces():
            if piece.constant is not None:
                continue
            yield f"reg {vector(piece.width)} {piece.name} = {literal(piece.word, piece.width)};"
        for phi, *_ in self.shared.phi_groups:
            name, width = self.shared.phis[phi]
            yield f"reg {vector(width)} {name} = {literal(0, width)};"

    def _outputs(self) -> Iterator[str]:
        for argument, name in self.outputs.items():
            pieces = self.shared.pieces[argument]
            high = max(piece.bits.high for piece in pieces)
            word = self.shared.word_of(Bits(argument, 0, high))
            yield f"assign {name} = {self._cut(word, high, 32)};"
            yield f"assign {name}_ap_vld = ap_done;"

    def _stream(self, port: StreamPort) -> Iterator[str]:
        """Of an input ``_word``, ``_there`` and ``_take``, of an output ``_word``, ``_room`` and ``_put``."""
        name, width = port.name, port.bits + port.packets
        outside = f"{{{name}_TLAST, {name}_TDATA}}" if port.packets else f"{name}_TDATA"
        yield f"wire {vector(width)} {name}_word;"
        if not port.master:
            yield f"wire {name}_there, {name}_take;"
            yield f"assign {name}_word = {outside};"
            yield f"assign {name}_there = {name}_TVALID;"
            yield f"assign {name}_TREADY = {name}_take;"
            return
        yield f"wire {name}_room, {name}_put;"
        pins = {
            "clk": "ap_clk", "reset": "reset",
            "in_data": f"{name}_word", "in_valid": f"{name}_put", "in_ready": f"{name}_room", "out_data": outside,
            "out_valid": f"{name}_TVALID", "out_ready": f"{name}_TREADY",
        }  # fmt: skip
        yield instance_text(f"{_border_module(port)} #(.WIDTH({width}))", f"{name}_slice", pins)

    def _body(self, number: int) -> Iterator[str]:
        """The words that a body is given."""
        for name in self.designs[number].inputs:
            yield f"assign {self.net(number, name)} = {self._input(number, name)};"

    def _declared(self) -> Iterator[str]:
        """Nets to and from the bodies, and words of memories."""
        for number, design in enumerate(self.designs):
            for name, (_, width) in design.inputs.items():
                yield f"wire {vector(width)} {self.net(number, name)};"
            for name, net in design.outputs.items():
                if (number, name) in self.used:
                    span = design.nets[net]
                    yield f"wire {vector(span.high, span.low)} {self.nets[number, name]};"
        for bank in self.banks:
            for port in range(len(bank.reads)):
                yield f"wire {vector(bank.memory.width)} {bank.name}_rd{port};"

    def _input(self, number: int, name: str) -> str:
        """What a body is given: the first word of a register, a value, the answer to an access."""
        kind, index = name.split("_")[0], int(name.split("_")[-1])
        if kind == "initial":
            return self.shared.word_of(self.shared.register_bits(number, index))
        body = self.designs[number].body
        operation = body.operations[index]
        if operation.opcode is Opcode.INVARIANT:
            return self._invariant(number, index)
        if operation.opcode is Opcode.MEMORY_READ:
            bank, port = self.memory_ports[Access(number, index)]
            return f"{bank}_rd{port}"
        return self._answer(number, index)

    def _answer(self, number: int, index: int) -> str:
        design = self.designs[number]
        operation = design.body.operations[index]
        if design.pipeline.latency(index):
            raise ToolError(f"{design.body.name}: a stream with latency")
        port = self._port(design.body, index)
        if operation.opcode is Opcode.STREAM_READ:
            return fitted(f"{port.name}_word", port.bits + port.packets, operation.width)
        if operation.name == "last":
            self._check_last(design, index)
            return f"{port.name}_word[{port.bits}]"
        return f"{port.name}_there" if operation.name == "empty" else f"{port.name}_room"

    def _check_last(self, design: Design, index: int) -> None:
        body = design.body
        stream = body.operations[index].stream
        reads = [
            k for k, o in enumerate(body.operations[:index]) if o.opcode is Opcode.STREAM_READ and o.stream == stream
        ]
        if design.pipeline.stage(reads[-1]) != design.pipeline.stage(index):
            raise ToolError(f"{body.name}: TLAST is asked for in another cycle than its beat")

    def _port(self, body: LoopBody, index: int) -> StreamPort:
        name = body.streams[body.operations[index].stream].name
        return next(port for port in self.ip.streams if port.name == name)

    def _memories(self) -> Iterator[str]:
        for bank in self.banks:
            pins = {"clk": "ap_clk", "ce": "ce[at]", **dict(bank_pins(self.designs, self.net, bank))}
            pins |= {f"rd{port}": f"{bank.name}_rd{port}" for port in range(len(bank.reads))}
            yield instance_text(f"{self.ip.function}_{bank.name}", bank.name, pins)

    def _accesses(self, opcode: Opcode) -> Iterator[tuple[int, int, StreamPort]]:
        for number, design in enumerate(self.designs):
            for index, operation in enumerate(design.body.operations):
                if operation.opcode is opcode:
                    yield number, index, self._port(design.body, index)

    def _wanted(self, number: int, index: int) -> str:
        operands = self.designs[number].body.operations[index].operands
        return self.net(number, f"operand_{index}_{len(operands) - 1}")

    def _enables(self) -> Iterator[str]:
        """A body moves on if none of its beats is refused."""
        refused: list[list[str]] = [[] for _ in self.designs]
        for number, index, port in self._accesses(Opcode.STREAM_READ):
            refused[number].append(f"{self._wanted(number, index)} & ~{port.name}_there")
        for number, index, port in self._accesses(Opcode.STREAM_WRITE):
            refused[number].append(f"{self._wanted(number, index)} & ~{port.name}_room")
        for number, reasons in enumerate(refused):
            yield f"assign ce[{self.number_of(number)}] = ~({' | '.join(reasons) or NEVER});"

    def _requests(self) -> Iterator[str]:
        reads, writes = list(self._accesses(Opcode.STREAM_READ)), list(self._accesses(Opcode.STREAM_WRITE))
        for port in self.ip.streams:
            own = [(n, k) for n, k, each in (writes if port.master else reads) if each.name == port.name]
            wanted = " | ".join(f"{self._wanted(n, k)} & ce[{self.number_of(n)}]" for n, k in own) or NEVER
            if not port.master:
                yield f"assign {port.name}_take = {wanted};"
                continue
            yield f"assign {port.name}_put = {wanted};"
            width = port.bits + port.packets
            word = literal(0, width)
            for place, (number, index) in enumerate(reversed(own)):
                body = self.designs[number].body
                size = body.operations[body.operations[index].operands[0]].width
                beat = fitted(self.net(number, f"operand_{index}_0"), size, width)
                word = beat if place == 0 else f"{self._wanted(number, index)} ? {beat} : {word}"
            yield f"assign {port.name}_word = {word};"

    def _control(self) -> Iterator[str]:
        names = [self.number_of(number) for number in range(len(self.designs))]
        for name in names:
            yield f"assign start[{name}] = (at == {name}) & ~entered;"
            yield f"assign done[{name}] = (at == {name}) & entered & ~busy[{name}];"
        after = names[0]
        if self.ip.control:
            returns = [
                f"done[{names[e.source]}] & {self._taken(e)}" for e in self.code.bodies.edges if e.target == RETURN
            ]
            yield "reg finished = 1'b0;"
            yield f"always @(posedge ap_clk) finished <= ~reset & ({' | '.join(returns) or NEVER});"
            yield "assign ap_done = finished;"
            yield "assign ap_ready = finished;"
            yield f"assign ap_idle = (at == {IDLE}) & ~finished;"
            after = IDLE
        yield "always @(posedge ap_clk)"
        yield f"if (reset) begin at <= {after}; entered <= 1'b0; end"
        if self.ip.control:
            yield f"else if (at == {IDLE}) begin if (ap_start & ~finished) at <= {names[0]}; entered <= 1'b0; end"
        yield "else if (~entered) entered <= 1'b1;"
        for number, name in enumerate(names):
            target = after
            for place, edge in enumerate(reversed(self.code.bodies.leaving(number))):
                follows = after if edge.target == RETURN else names[edge.target]
                target = follows if place == 0 else f"{self._taken(edge)} ? {follows} : {target}"
            yield f"else if (done[{name}]) begin at <= {target}; entered <= 1'b0; end"

    def _result(self, number: int, name: str) -> tuple[str, int]:
        body = self.designs[number].body
        operation = body.exports[name]
        return self._computed(number, operation), body.operations[operation].width

    def _taken(self, edge: Edge) -> str:
        return self._result(edge.source, edge.condition)[0]

    def _updates(self) -> Iterator[str]:
        """What a body leaves is taken when it has ended."""
        for piece in self.shared.shared_pieces():
            if piece.constant is not None:
                continue
            lines = [f"if (reset) {piece.name} <= {literal(piece.word, piece.width)};"]
            for number, register, low in piece.writers:
                condition, word = self._left(number, register)
                lines.append(f"if ({condition}) {piece.name} <= {word}{vector(low + piece.width, low)};")
            yield "always @(posedge ap_clk) " + " else ".join(lines)
        for phis in self.shared.phi_groups:
            yield from self._phi_updates(phis)

    def _left(self, number: int, register: int) -> tuple[str, str]:
        """When the IP takes the word of a body's register, and the word."""
        if register in self.shared.outside[number]:
            taken = self.net(number, f"take_{register}")
            return f"ce[{self.number_of(number)}] & {taken}", self.net(number, f"next_{register}")
        return f"done[{self.number_of(number)}]", self.net(number, f"state_{register}")

    def _phi_updates(self, phis: Sequence[str]) -> Iterator[str]:
        """A phi has the word of the edge by which its body was reached, and then what the body makes of it.

        ``phis``: those of one register. It stays as it is where one gets the word of another.
        """
        name, width = self.shared.phis[phis[0]]
        lines = []
        for edge, phi in product(self.code.bodies.edges, phis):
            if phi in edge.words and self.shared.phi_register(edge.words[phi]) not in phis:
                word, size = self._result(edge.source, edge.words[phi])
                known = self._cut(word, size, width)
                lines.append(f"if (done[{self.number_of(edge.source)}] & {self._taken(edge)}) {name} <= {known};")
        changes = []
        for number, register in (each for phi in phis for each in self.shared.phi_registers(phi)):
            bits = self.shared.register_bits(number, register)
            condition, word = self._left(number, register)
            changes.append(f"if ({condition}) {name}{vector(bits.high, bits.low)} <= {word};")
        if changes:
            lines.append(f"begin {' '.join(changes)} end")
        if lines:
            yield "always @(posedge ap_clk) " + " else ".join(lines)
