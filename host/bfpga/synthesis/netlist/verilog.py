"""Verilog of a loop body: modules of bounded size between which values and their registers are wired.

The module ``loop`` has these ports; a cycle happens where ``ce`` is 1:

=================== =============================================================================================
port                what
=================== =============================================================================================
``start``           1 in the cycle before the first iteration: registers of state take ``initial_<register>``
``data_<op>``       result of an access in the stage in which it arises; an invariant's value
``initial_<r>``     first value of register r
``operand_<op>_<k>`` operand k of an access in the stage in which it starts; enables are 0 where no iteration is
``state_<r>``       register r: the next value of an iteration from the cycle after `Pipeline.capture` on
``next_<r>``, ``take_<r>`` of a register that stands outside: its next value, and 1 in the cycle in which it takes that
``result_<op>``     a value that is used after the loop, of the iteration before
``valid``           an iteration begins in this cycle
=================== =============================================================================================
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bfpga.synthesis.body import LoopBody, Opcode
from bfpga.synthesis.netlist.expressions import (
    assignment,
    literal,
    registered_product,
    selected_sum,
    serial_product,
    vector,
    wiring,
)
from bfpga.synthesis.netlist.interpret import ENABLED, EXTERNAL, WRITES
from bfpga.synthesis.netlist.partition import Group, partition
from bfpga.synthesis.netlist.pipeline import FIXED, WIRING, Pipeline
from bfpga.synthesis.schedule_types import DIGIT_REGISTERS, Schedule

#: A value in a register of its row: operation and age. An age of 0 is the value itself.
Signal = tuple[int, int]
TOP, BORDER = "loop", "border"


@dataclass(slots=True)
class Span:
    """Bits of a signal that are used: from ``low`` to below ``high``."""

    low: int
    high: int

    def add(self, low: int, high: int) -> None:
        self.low, self.high = min(self.low, low), max(self.high, high)


@dataclass(frozen=True, slots=True)
class Instance:
    """A part of the body: an instance of a module that others may share.

    ``inputs`` and ``outputs``: net of each port; ``origins``: operation of each name in the module, or the complement
    of a register's number for its state; ``wires``: operation of each other name.
    """

    name: str
    module: str
    function: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    origins: dict[str, int]
    wires: dict[str, int]


@dataclass(slots=True)
class Design:
    """A loop body in Verilog. ``modules``: text of each module by name; ``nets``: range of each net between them."""

    body: LoopBody
    pipeline: Pipeline
    modules: dict[str, str]
    instances: list[Instance]
    nets: dict[str, Span]
    #: Ports: of inputs net and width, of outputs the net.
    inputs: dict[str, tuple[str, int]] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    in_ip: bool = False

    @property
    def shared_ports(self) -> list[str]:
        """Inputs that all modules have."""
        return ["clk", "ce", "start", *(["reset"] if self.in_ip else [])]

    def verilog(self) -> str:
        """The whole text; the module above all is ``loop``."""
        return "\n".join([*self.modules.values(), self.above()])

    def above(self) -> str:
        """The module above all."""
        return "\n".join([*self._top(), ""])

    def _top(self) -> Iterator[str]:
        ports = [f"input {name}" for name in self.shared_ports]
        ports += [f"input {vector(width)} {name}" for name, (_, width) in self.inputs.items()]
        ports += [f"output {self._range(net)} {name}" for name, net in self.outputs.items()]
        yield f"module {TOP}({', '.join(ports)});"
        for net in self.nets:
            yield f"wire {self._range(net)} {net};"
        for name, (net, _) in self.inputs.items():
            yield f"assign {net} = {name}{self._range(net)};"
        for name, net in self.outputs.items():
            yield f"assign {name} = {net};"
        for item in self.instances:
            nets = {**{name: name for name in self.shared_ports}, **item.inputs, **item.outputs}
            yield f"{item.module} {item.name} ({', '.join(f'.{port}({net})' for port, net in nets.items())});"
        yield "endmodule"

    def _range(self, net: str) -> str:
        span = self.nets[net]
        return vector(span.high, span.low)


def translate(
    body: LoopBody,
    schedule: Schedule | None = None,
    groups: list[Group] | None = None,
    loads: bool | Collection[int] = True,
    resets: Mapping[int, int] | None = None,
    outside: Collection[int] = (),
) -> Design:
    """Verilog of a scheduled body; without a schedule an iteration is one cycle, all of it between state registers.

    ``loads``: with the port through which registers take their first values, all of them or these. They need it to be
    simulated, unless it is 0; a selection in front of each register is no logic of the loop's, so that sizes are those
    without it. ValueError if the schedule
    uses a value before it is there.

    ``resets``: as a part of an IP, with ports ``reset`` and ``busy`` (an iteration is in a stage, or the next one
    begins); these registers have these words at power-on and after a reset. ``outside``: registers that the IP has
    for the body; ``initial_<r>`` is the word of now.
    """
    pipeline = Pipeline(body, schedule)
    return _Translation(pipeline, partition(pipeline) if groups is None else groups, loads, resets, outside).design()


class _Translation:
    def __init__(
        self, pipeline: Pipeline, groups: list[Group], loads: bool | Collection[int] = True,
        resets: Mapping[int, int] | None = None, outside: Collection[int] = (),
    ) -> None:  # fmt: skip
        self.pipeline = pipeline
        self.outside = frozenset(outside)
        self.in_ip, self.resets = resets is not None, resets or {}
        self.loads = loads if not isinstance(loads, bool) else range(len(pipeline.body.registers)) if loads else ()
        self.body = pipeline.body
        self.groups = groups
        self.spans: dict[Signal, Span] = {}
        #: Signals that leave the module which makes them.
        self.exported: set[Signal] = set()
        self.owner = {index: number for number, group in enumerate(groups) for index in group.operations}
        for number, group in enumerate(groups):
            for register in group.registers:
                self.owner[self.body.registers[register].current] = number
        self._collect()

    def design(self) -> Design:
        design = Design(self.body, self.pipeline, {}, [], {}, in_ip=self.in_ip)
        border = _Border(self)
        for part in [*(_Part(self, group) for group in self.groups), border]:
            if not part.outputs:  # its results are unused
                continue
            text = part.text()
            module = f"part_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
            design.modules[module] = f"module {module}{text}"
            name = f"{'border' if part is border else 'u'}_{len(design.instances)}"
            design.instances.append(
                Instance(name, module, part.function, part.inputs, dict(part.outputs), part.origins, part.wires)
            )
            design.nets.update(part.nets)
            design.outputs.update({net.removeprefix("to_"): net for net in part.outputs.values() if net[:3] == "to_"})
        for index, operation in enumerate(self.body.operations):
            if f"from_data_{index}" in design.nets:
                design.inputs[f"data_{index}"] = (f"from_data_{index}", operation.width)
        for index, register in enumerate(self.body.registers):
            if f"from_initial_{index}" in design.nets:
                design.inputs[f"initial_{index}"] = (f"from_initial_{index}", register.width)
            design.outputs[f"state_{index}"] = self.net((register.current, 1))
        return design

    def net(self, signal: Signal) -> str:
        index, age = signal
        outside = age == 0 and (
            self.body.operations[index].opcode in EXTERNAL or self.body.operations[index].opcode in FIXED
        )
        return f"from_data_{index}" if outside else f"x{index}_{age}"

    # What is used where

    def uses(self, index: int, stage: int, low: int, high: int) -> Iterator[tuple[Signal, int, int]]:
        """Signals with the bits of them that the bits ``low`` to below ``high`` of a value at a stage are made of."""
        operation = self.body.operations[index]
        if low >= high or operation.opcode is Opcode.CONSTANT:
            return
        if operation.opcode in WIRING:
            yield from self._wiring_uses(index, stage, low, high)
            return
        bits = self.pipeline.bits[index]
        if bits.is_signed:
            low, high = min(low, bits.count - 1), min(high, bits.count)
        else:
            high = min(high, bits.unsigned)
        if low < high:
            yield (index, self.pipeline.age(index, stage)), low, high

    def _wiring_uses(self, index: int, stage: int, low: int, high: int) -> Iterator[tuple[Signal, int, int]]:
        operation = self.body.operations[index]
        operands = operation.operands
        first = operands[0]
        width = self.body.operations[first].width
        if operation.opcode is Opcode.ZEXT:
            yield from self.uses(first, stage, low, min(high, width))
        elif operation.opcode is Opcode.SEXT:
            yield from self.uses(first, stage, min(low, width - 1), min(high, width))
        elif operation.opcode is Opcode.SLICE:
            yield from self.uses(first, stage, low + operation.value, high + operation.value)
        else:
            place = 0
            for operand in operands:
                width = self.body.operations[operand].width
                yield from self.uses(operand, stage, max(low - place, 0), min(high - place, width))
                place += width

    def _collect(self) -> None:
        """Spans of all signals, and which of them leave their module."""
        for number, group in enumerate(self.groups):
            for index in group.operations:
                if self.body.operations[index].opcode not in EXTERNAL:
                    for operand in self.body.operations[index].operands:
                        self._use(number, operand, self.pipeline.stage(index))
            for register in group.registers:
                if self.pipeline.capture[register] >= 0:
                    self._use(number, self.body.registers[register].next, self.pipeline.capture[register])
                if register in self.pipeline.frozen:
                    self._use(number, self.body.leaves, self.pipeline.capture[register])
        for index in self.accesses():
            for operand in self.body.operations[index].operands:
                self._use(-1, operand, self.pipeline.stage(index))
        if self.body.leaves >= 0:
            self._use(-1, self.body.leaves, self.leaving_stage())
        for index in self.pipeline.results():
            self._use(-1, index, self.pipeline.result_stage(index))
        for each in self.body.registers:
            signal = (each.current, 1)
            self.spans[signal] = Span(0, each.width)
            self.exported.add(signal)
        self._fill_rows()

    def _use(self, number: int, index: int, stage: int) -> None:
        for signal, low, high in self.uses(index, stage, 0, self.body.operations[index].width):
            self.spans.setdefault(signal, Span(low, high)).add(low, high)
            if self.owner.get(signal[0], -2) != number:
                self.exported.add(signal)

    def _fill_rows(self) -> None:
        """The registers of a row before one that is used: they hold its bits too, and a port that they come through."""
        for (index, age), span in list(self.spans.items()):
            opcode = self.body.operations[index].opcode
            first = 0 if opcode in EXTERNAL else 2 if opcode is Opcode.STATE else 1
            for before in range(first, age):
                self.spans.setdefault((index, before), Span(span.low, span.high)).add(span.low, span.high)

    def has_own_register(self, number: int) -> bool:
        """Whether a register of state stands in the body: not if the IP has it, or a word that nothing changes."""
        is_fixed = self.in_ip and self.pipeline.capture[number] < 0 and number in self.loads
        return number not in self.outside and not is_fixed

    def accesses(self) -> list[int]:
        return [
            index
            for index, operation in enumerate(self.body.operations)
            if operation.opcode in EXTERNAL or operation.opcode in WRITES
        ]

    def leaving_stage(self) -> int:
        """Stage in which the last iteration is known to be it."""
        return self.pipeline.ready(self.body.leaves)

    def row(self, index: int) -> list[int]:
        """Ages of a value that are registers of its own, in order; state's first one is not among them."""
        first = 2 if self.body.operations[index].opcode is Opcode.STATE else 1
        ages: list[int] = []
        while (index, first + len(ages)) in self.spans:
            ages.append(first + len(ages))
        return ages


class _Module:
    """Text of a module whose names depend on nothing but its own structure, so that equal ones are the same text."""

    function = ""

    def __init__(self, translation: _Translation) -> None:
        self.all = translation
        self.body = translation.body
        self.pipeline = translation.pipeline
        self.lines: list[str] = []
        self.ports = ["input clk", "input ce", "input start", *(["input reset"] if translation.in_ip else [])]
        self.inputs: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        self.nets: dict[str, Span] = {}
        self.origins: dict[str, int] = {}
        self.wires: dict[str, int] = {}
        self.signals: dict[Signal, str] = {}
        self.values: dict[tuple[int, int], str] = {}

    def text(self) -> str:
        return "\n".join([f"({', '.join(self.ports)});", *self.lines, "endmodule"])

    def input(self, net: str, span: Span) -> str:
        port = f"i{len(self.inputs)}"
        self.inputs[port] = net
        self.nets[net] = span
        self.ports.append(f"input {vector(span.high, span.low)} {port}")
        return port

    def output(self, net: str, span: Span, expression: str) -> None:
        port = f"o{len(self.outputs)}"
        self.outputs[port] = net
        self.nets[net] = span
        self.ports.append(f"output {vector(span.high, span.low)} {port}")
        self.lines.append(f"assign {port} = {expression};")

    def value(self, index: int, stage: int) -> str:
        """Name of the whole vector of a value at a stage."""
        operation = self.body.operations[index]
        if operation.opcode is Opcode.CONSTANT:
            key = (index, 0)
            if key not in self.values:
                self.values[key] = self._wire(index, literal(operation.value, operation.width))
            return self.values[key]
        if operation.opcode in WIRING:
            if (index, stage) not in self.values:
                operands = [self.value(operand, stage) for operand in operation.operands]
                widths = [self.body.operations[operand].width for operand in operation.operands]
                self.values[index, stage] = self._wire(index, wiring(operation, operands, widths))
            return self.values[index, stage]
        return self.signal((index, self.pipeline.age(index, stage)))

    def signal(self, signal: Signal) -> str:
        """Name of the whole vector of a signal that this module makes or, the first time, gets through a port."""
        if signal not in self.signals:
            self.add_signal(signal, "")
        return self.signals[signal]

    def add_signal(self, signal: Signal, name: str) -> None:
        """A signal by the name of its bits that are used; without a name it comes through a port."""
        width = self.body.operations[signal[0]].width
        span = self.all.spans.get(signal)
        if span is None:  # bits that are all known
            self.signals[signal] = self._wire(signal[0], literal(0, width))
            return
        name = name or self.input(self.all.net(signal), span)
        if span.low == 0 and span.high == width:
            self.signals[signal] = name
            return
        bits = self.pipeline.bits[signal[0]]
        repeated = f"{name}[{span.high - 1}]" if bits.is_signed and span.high == bits.count else "1'b0"
        pieces = [f"{{{width - span.high}{{{repeated}}}}}"] if width > span.high else []
        pieces += [name, *([literal(0, span.low)] if span.low else [])]
        self.signals[signal] = self._wire(signal[0], "{" + ", ".join(pieces) + "}")

    def _wire(self, index: int, expression: str) -> str:
        """A wire with all bits of an operation."""
        name = f"w{len(self.lines)}"
        self.lines.append(f"wire {vector(self.body.operations[index].width)} {name} = {expression};")
        self.wires[name] = index
        return name

    def clocked(self, statement: str) -> None:
        self.lines.append(f"always @(posedge clk) if (ce) {statement}")

    def restarted(self, name: str, word: str, statement: str) -> None:
        """A register that, as a part of an IP, has a word at power-on and after a reset."""
        if not self.all.in_ip:
            self.clocked(statement)
            return
        self.lines.append(f"initial {name} = {word};")
        self.lines.append(f"always @(posedge clk) if (reset) {name} <= {word}; else if (ce) begin {statement} end")


class _Part(_Module):
    """Operations of a group with the registers that hold their values, and registers of state."""

    def __init__(self, translation: _Translation, group: Group) -> None:
        super().__init__(translation)
        self.function = group.name
        self.group = group
        self._phases: dict[int, str] = {}
        states = [self.body.registers[number].current for number in group.registers]
        for local, index in enumerate(states):
            number = group.registers[local]
            if translation.has_own_register(number):
                self._declare(f"s{local}", (index, 1))
            else:
                width = self.body.registers[number].width
                word = self.input(f"from_initial_{number}", Span(0, width))
                self.lines.append(f"wire {vector(width)} s{local} = {word};")
                self.add_signal((index, 1), f"s{local}")
            if (index, 0) in self.all.spans:
                span = self.all.spans[index, 0]
                self.lines.append(f"wire {vector(span.high, span.low)} s{local}_0;")
                self.add_signal((index, 0), f"s{local}_0")
            self.origins[f"s{local}"] = ~group.registers[local]
        for index in states:
            self._row(index, self.signals[index, 1], f"s{states.index(index)}")
        for local, index in enumerate(group.operations):
            self._operation(local, index)
        for local, number in enumerate(group.registers):
            self._state(f"s{local}", number)
        self._export([*states, *group.operations])

    def _declare(self, name: str, signal: Signal) -> None:
        span = self.all.spans[signal]
        self.lines.append(f"reg {vector(span.high, span.low)} {name};")
        self.add_signal(signal, name)

    def _operation(self, local: int, index: int) -> None:
        operation = self.body.operations[index]
        name = f"n{local}"
        self.origins[name] = index
        if operation.opcode in EXTERNAL:
            if self.all.row(index):
                self._row(index, self.signal((index, 0)), name)
            return
        stage, latency = self.pipeline.stage(index), self.pipeline.latency(index)
        operands = [self.value(operand, stage) for operand in operation.operands]
        widths = [self.body.operations[operand].width for operand in operation.operands]
        bits = [self.pipeline.bits[operand] for operand in operation.operands]
        if digits := self.pipeline.digits.get(index):
            phases = [self._phase_port(stage + clock) for clock in range(digits + DIGIT_REGISTERS)]
            self.lines += serial_product(name, operation, operands, bits, phases)
            self.signals[index, 0] = name
            self._row(index, name, name)
            return
        in_block = latency > 0 and operation.opcode is Opcode.MUL and operation.binding != "fabric"
        if in_block:
            self.lines += registered_product(name, operation, operands, bits, latency)
        elif not latency and (side := self._selection(index, stage)) >= 0:
            self.lines += selected_sum(name, operation.width, operands[side], operands[1 - side])
        else:
            self.lines += assignment(f"{name}_c" if latency else name, operation, operands, widths, bits)
        for clock in range(0 if in_block else latency):
            before = f"{name}_p{clock - 1}" if clock else f"{name}_c"
            self.lines.append(f"reg {vector(operation.width)} {name}_p{clock};")
            self.clocked(f"{name}_p{clock} <= {before};")
        if latency and not in_block:
            self.lines.append(f"wire {vector(operation.width)} {name} = {name}_p{latency - 1};")
        self.signals[index, 0] = name
        self._row(index, name, name)

    def _selection(self, index: int, stage: int) -> int:
        """Which operand of a sum of tables is selected in its stage and part, the other not; -1 if there is none."""
        operation = self.body.operations[index]
        if operation.opcode is not Opcode.ADD or index in self.pipeline.accumulators:
            return -1
        operands = map(self._made_of, operation.operands)
        selected = [all(self._is_selected(root, stage) for root in roots) for roots in operands]
        return selected.index(True) if selected.count(True) == 1 else -1

    def _made_of(self, operand: int) -> list[int]:
        """What a value is made of, constants left out unless it is one."""
        roots = self.pipeline.roots(operand)
        return [root for root in roots if self.body.operations[root].opcode is not Opcode.CONSTANT] or [operand]

    def _is_selected(self, index: int, stage: int) -> bool:
        here = (index, 0) in self.signals and self.pipeline.age(index, stage) == 0
        return here and self.body.operations[index].opcode is Opcode.SELECT

    def _row(self, index: int, value: str, name: str) -> None:
        """The registers in which a value waits; each takes its word in the cycle in which the first one does."""
        for age in self.all.row(index):
            if age == 1 and index in self.pipeline.accumulators:
                # The register of the block has the sum when others use it.
                register = self.body.registers[self.pipeline.accumulators[index].register]
                value = self.signals[index, age] = self.signals[register.current, 1]
                continue
            span = self.all.spans[index, age]
            self._declare(f"{name}_{age}", (index, age))
            condition = self._phase(self.pipeline.available(index))
            self.clocked(f"{condition}{name}_{age} <= {value}{vector(span.high, span.low)};")
            value = self.signals[index, age]

    def _phase(self, stage: int) -> str:
        """Condition that a stage's cycle of the interval is now; none at an interval of one cycle."""
        interval = self.pipeline.interval
        if interval == 1:
            return ""
        return f"if ({self._phase_port(stage)}) "

    def _phase_port(self, stage: int) -> str:
        """What is 1 in a stage's cycle of an interval of several."""
        phase = stage % self.pipeline.interval
        if phase not in self._phases:
            self._phases[phase] = self.input(f"phase_{phase}", Span(0, 1))
        return self._phases[phase]

    def _state(self, name: str, number: int) -> None:
        capture = self.pipeline.capture[number]
        register = self.body.registers[number]
        if capture < 0 and not self.all.has_own_register(number):
            return
        if capture < 0 and number not in self.all.loads and self.all.in_ip:
            self.lines.append(f"initial {name} = {literal(self.all.resets.get(number, 0), register.width)};")
            return
        if capture < 0:
            initial = self.input(f"from_initial_{number}", Span(0, register.width))
            self.clocked(f"if (start) {name} <= {initial};")
            return
        following = self.value(register.next, capture)
        valid = self._valid(capture)
        if number in self.pipeline.frozen:
            valid = f"({valid} & ~{self.value(self.body.leaves, capture)})"
        span = self.all.spans.get((register.current, 0))
        if span is not None:
            bits = vector(span.high, span.low)
            self.lines.append(f"assign {name}_0 = {valid} ? {following}{bits} : {name}{bits};")
        if number in self.all.outside:
            self.output(f"to_next_{number}", Span(0, register.width), following)
            self.output(f"to_take_{number}", Span(0, 1), valid)
            return
        if number not in self.all.loads:
            word = literal(self.all.resets.get(number, 0), register.width)
            self.restarted(name, word, f"if ({valid}) {name} <= {following};")
            return
        initial = self.input(f"from_initial_{number}", Span(0, register.width))
        self.clocked(f"if (start) {name} <= {initial}; else if ({valid}) {name} <= {following};")

    def _valid(self, stage: int) -> str:
        net = f"is_valid_{stage}"
        for port, known in self.inputs.items():
            if known == net:
                return port
        return self.input(net, Span(0, 1))

    def _export(self, indices: Sequence[int]) -> None:
        for index in indices:
            state = self.body.operations[index].opcode is Opcode.STATE
            for age in [0, *([1] if state else []), *self.all.row(index)]:
                signal = (index, age)
                if signal in self.all.exported and self.all.net(signal) not in self.inputs.values():
                    span = self.all.spans[signal]
                    net = self.all.net(signal)
                    if not net.startswith("from_"):
                        self.output(net, span, f"{self.signals[signal]}{vector(span.high, span.low)}")


class _Border(_Module):
    """Which stage has an iteration, which cycle of the interval it is, and the operands of accesses."""

    function = "control"

    def __init__(self, translation: _Translation) -> None:
        super().__init__(translation)
        self.depth = 1 + max(
            [0, *self.pipeline.capture, *(self.pipeline.stage(index) for index in translation.accesses())]
            + ([translation.leaving_stage()] if self.body.leaves >= 0 else [])
            + [self.pipeline.result_stage(index) for index in self.pipeline.results()]
        )
        self._phases()
        self._valid()
        self._operands()
        self._results()

    def _phases(self) -> None:
        interval = self.pipeline.interval
        if interval == 1:
            return
        self.lines.append(f"reg {vector(interval)} phase;")
        turned = f"{{phase{vector(interval - 1)}, phase[{interval - 1}]}}"
        self.restarted("phase", literal(1, interval), f"phase <= start ? {literal(1, interval)} : {turned};")
        for phase in range(interval):
            self.output(f"phase_{phase}", Span(0, 1), f"phase[{phase}]")

    def _valid(self) -> None:
        """Bit k of ``stages``: an iteration is in stage k. Those after the last one vanish when it is known."""
        begins = "active" if self.pipeline.interval == 1 else "active & phase[0]"
        depth = self.depth
        self.lines.append("reg active;")
        self.lines.append(f"wire {vector(depth)} stages;")
        leaving, younger = "1'b0", 0
        if self.body.leaves >= 0:
            younger = self.all.leaving_stage()
            leaving = f"{self.value(self.body.leaves, younger)} & stages[{younger}]"
        self.lines.append(f"wire leaving = {leaving};")
        self.restarted("active", "1'b0", "if (start) active <= 1'b1; else if (leaving) active <= 1'b0;")
        if depth > 1:
            self.lines.append(f"reg {vector(depth - 1)} later;")
            kept = (
                "{"
                + ", ".join(
                    f"stages[{stage}]" if stage >= younger else f"stages[{stage}] & ~leaving"
                    for stage in reversed(range(depth - 1))
                )
                + "}"
            )
            self.restarted("later", literal(0, depth - 1), f"later <= start ? {literal(0, depth - 1)} : {kept};")
            self.lines.append(f"assign stages = {{later, {begins}}};")
        else:
            self.lines.append(f"assign stages = {begins};")
        for stage in sorted({stage for stage in self.pipeline.capture if stage >= 0}):
            self.output(f"is_valid_{stage}", Span(0, 1), f"stages[{stage}]")
        self.output("to_valid", Span(0, 1), "stages[0]")
        if self.all.in_ip:
            self.output("to_busy", Span(0, 1), "active | (|later)" if depth > 1 else "active")

    def _operands(self) -> None:
        for index in self.all.accesses():
            operation = self.body.operations[index]
            stage = self.pipeline.stage(index)
            for number, operand in enumerate(operation.operands):
                value = self.value(operand, stage)
                width = self.body.operations[operand].width
                if operation.opcode in ENABLED and number == len(operation.operands) - 1:
                    value = f"{value} & stages[{stage}]"
                self.output(f"to_operand_{index}_{number}", Span(0, width), value)

    def _results(self) -> None:
        """Values that are used after the loop, as the last iteration leaves them."""
        for index in self.pipeline.results():
            stage = self.pipeline.result_stage(index)
            value = self.value(index, stage)
            width = self.body.operations[index].width
            self.lines.append(f"reg {vector(width)} r{index};")
            self.clocked(f"if (stages[{stage}]) r{index} <= {value};")
            self.output(f"to_result_{index}", Span(0, width), f"r{index}")
