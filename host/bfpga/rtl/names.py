"""Names that a reader of the C++ knows, in place of the numbers by which the netlist writer calls values.

The writer's names follow from the structure of a part alone, so that equal parts are equal text. A part that stands in
several places of an IP has the names of the first one. Before each group of operations a comment says where in the C++
they come from.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping

from bfpga.synthesis.body import LoopBody, Opcode, Operation, Place
from bfpga.synthesis.meaning import source_name
from bfpga.synthesis.netlist.verilog import TOP, Design, Instance

#: A number of the writer's with what follows it: the age of a value, a register of a product, a pin of a cell.
_NUMBERED = re.compile(
    r"\b((?:from_data|from_initial|is_valid|data|initial|state|(?:to_)?(?:next|take|result))_\d+"
    r"|(?:to_)?operand_\d+_\d+|x\d+_\d+|[nsiorw]\d+)(_\w+)?\b"
)
_PORT = re.compile(r"(data|initial|state|next|take|result|operand)_(\d+)(?:_(\d+))?")
_DECLARES = re.compile(r"(?:wire|reg) (?:\[\d+:\d+\] )?(\w+)")
_AGE = re.compile(r"^_(\d+)")
_ASSIGNED = re.compile(r"(\w+)\s*(?:\[[^\]]*\])?\s*(?:[-+*/%&|^])?(?<![=!<>])=(?!=)|\b\w+(?:<[^>]*>)?\s+(\w+)\{")
_ENDS = (";", "{", "}", ":", ">")
#: What all modules call their own.
_TAKEN = frozenset({"clk", "ce", "start", "reset", "valid", "busy", "active", "stages", "later", "leaving", "phase"})
_COLUMNS = 120
#: Digits beyond which a constant is not named by its value.
_DIGITS = 6
_OPERANDS = {
    Opcode.MEMORY_READ: ("address", "read"), Opcode.MEMORY_WRITE: ("write_address", "write_word", "write"),
    Opcode.STREAM_READ: ("take",), Opcode.STREAM_WRITE: ("beat", "put"),
}  # fmt: skip
_STATUS = {"empty": "there", "full": "room", "last": "last"}


def readable(text: str) -> str:
    """A name of C++ (``groups_.word_[3].last_``) as an identifier of Verilog; empty if none of it is a name."""
    name = re.sub(r"_*[^A-Za-z0-9]+_*|_{2,}", "_", text).strip("_")
    return name if name[:1].isalpha() else ""


class Names:
    """Names in the Verilog of an IP. ``sources``: its C++, path -> text."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._lines = {source_name(path): text.split("\n") for path, text in sources.items()}
        self._hints: dict[Place, str] = {}
        #: A part by its name in the structure -> name and port by port.
        self._parts: dict[str, tuple[str, Mapping[str, str]]] = {}

    # -- what values are called

    def place(self, place: Place | None) -> str:
        """The variable that a line of C++ sets, else the function that it is in."""
        if place is None:
            return "value"
        if place not in self._hints:
            self._hints[place] = self._set_at(place) or readable(place.function.rpartition("::")[2]) or "value"
        return self._hints[place]

    def _set_at(self, place: Place) -> str:
        lines = self._lines.get(place.file, [])
        if not 0 < place.line <= len(lines):
            return ""
        first = place.line - 1
        while first > max(0, place.line - 4) and lines[first - 1].strip() and not lines[first - 1].endswith(_ENDS):
            first -= 1
        statement = " ".join(line.partition("//")[0].strip() for line in lines[first : place.line])
        found = _ASSIGNED.search(statement)
        return readable(found[1] or found[2]) if found else ""

    def value(self, body: LoopBody, index: int) -> str:
        """The name of an operation's result."""
        operation = body.operations[index]
        match operation.opcode:
            case Opcode.CONSTANT:
                digits = f"{operation.value:x}"
                return f"const_{digits}" if len(digits) <= _DIGITS else "const"
            case Opcode.STATE:
                return self.register(body, operation.register)
            case Opcode.STREAM_READ:
                return f"{readable(body.streams[operation.stream].name)}_word"
            case Opcode.STREAM_STATUS:
                return f"{readable(body.streams[operation.stream].name)}_{_STATUS[operation.name]}"
            case Opcode.MEMORY_READ:
                return f"{memory_name(body, operation)}_word"
            case Opcode.INVARIANT if body.origins[operation.name].offset >= 0:
                return readable(operation.name)
        return self.place(operation.place)

    def register(self, body: LoopBody, number: int) -> str:
        """The name of a register: the variable, else what sets it."""
        own = body.registers[number]
        if own.name[:1].isalpha():
            return readable(own.name)
        return self.place(own.place or body.operations[own.next].place)

    def operand(self, body: LoopBody, index: int, number: int) -> str:
        """The name of an operand of an access."""
        operation = body.operations[index]
        of_memory = operation.opcode in (Opcode.MEMORY_READ, Opcode.MEMORY_WRITE)
        owner = memory_name(body, operation) if of_memory else readable(body.streams[operation.stream].name)
        return f"{owner}_{_OPERANDS[operation.opcode][number]}"

    def net(self, body: LoopBody, net: str) -> str:
        """The name of a net between the parts of a body."""
        if found := re.fullmatch(r"x(\d+)_(\d+)", net):
            index, age = int(found[1]), int(found[2])
            if body.operations[index].opcode is Opcode.STATE:
                return self.value(body, index) + ("_next" if age == 0 else "" if age == 1 else f"_d{age}")
            return self.value(body, index) + (f"_d{age}" if age else "")
        if found := re.fullmatch(r"is_valid_(\d+)", net):
            return f"in_stage_{found[1]}"
        return self.port(body, net.removeprefix("from_").removeprefix("to_"))

    def port(self, body: LoopBody, port: str) -> str:
        """The name of a port of a body."""
        found = _PORT.fullmatch(port)
        if found is None:
            return port
        kind, number = found[1], int(found[2])
        if kind == "initial":
            return f"{self.register(body, number)}_first"
        if kind in ("next", "take"):
            return f"{self.register(body, number)}_{kind}"
        if kind == "state":
            return self.register(body, number)
        if kind == "operand":
            return self.operand(body, number, int(found[3]))
        return self.value(body, number) + ("_result" if kind == "result" else "")

    # -- text

    def parts(self, design: Design) -> Iterator[tuple[str, str]]:
        """Name and text of each module that an IP's design is the first to use."""
        for instance in design.instances:
            if instance.module not in self._parts:
                name, ports, text = self._named_part(design, instance)
                self._parts[instance.module] = name, ports
                yield name, text

    def _named_part(self, design: Design, instance: Instance) -> tuple[str, Mapping[str, str], str]:
        body = design.body
        numbers = instance.wires | instance.origins

        def hint(token: str) -> str:
            if token in numbers:
                index = numbers[token]
                return self.register(body, ~index) if index < 0 else self.value(body, index)
            if token in instance.inputs:
                return self.net(body, instance.inputs[token])
            if token in instance.outputs:
                return f"{self.net(body, instance.outputs[token])}_out"
            return f"{self.value(body, int(token[1:]))}_result"  # of the border

        first, *lines = design.modules[instance.module].split("\n")
        text = "\n".join([first, *self._commented(body, lines, numbers)])
        mapping = _unique(text, hint)
        head, rest = _renamed(text, mapping).split("\n", 1)
        text = f"{port_list(head)}\n{rest}\n"
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        name = f"{readable(instance.function) or 'part'}_{digest}"
        ports = {port: mapping.get(port, port) for port in (*instance.inputs, *instance.outputs)}
        return name, ports, text.replace(f"module {instance.module}(", f"module {name}(", 1)

    def _commented(self, body: LoopBody, lines: list[str], numbers: Mapping[str, int]) -> Iterator[str]:
        """Lines with the place of their operations before each group of one place."""
        last = ""
        for line in lines:
            found = _DECLARES.match(line)
            index = numbers.get(found[1].split("_")[0], -1) if found else -1
            place = body.operations[index].place if index >= 0 else None
            if place is not None and place.line and (said := f"// {place} {place.function}") != last:
                yield said
                last = said
            yield line

    def body(self, design: Design, name: str) -> tuple[str, Mapping[str, str]]:
        """The module that joins the parts of a design, and the names of its ports; after `parts` of the design."""
        body = design.body

        def hint(token: str) -> str:
            return f"{self.net(body, token)}_net" if token.startswith(("from_", "to_")) else self.net(body, token)

        head, *lines = [line for line in design.above().split("\n") if not line.startswith("part_")]
        text = "\n".join([head.replace(f"module {TOP}(", f"module {name}("), *lines])
        mapping = _unique(text, hint)
        head, *lines = _renamed(text, mapping).split("\n")
        taken = {*_TAKEN, *mapping.values()}
        instances = [self._instance(design, each, mapping, taken) for each in design.instances]
        text = "\n".join([port_list(head), *lines[: lines.index("endmodule")], *instances, "endmodule", ""])
        return text, {port: mapping.get(port, port) for port in (*design.inputs, *design.outputs)}

    def _instance(self, design: Design, instance: Instance, nets: Mapping[str, str], taken: set[str]) -> str:
        module, ports = self._parts[instance.module]
        name = unused(f"{readable(instance.function) or 'part'}_part", (), taken)
        taken.add(name)
        pins = {name: name for name in design.shared_ports}
        pins |= {ports[port]: nets.get(net, net) for port, net in (instance.inputs | instance.outputs).items()}
        return instance_text(module, name, pins)


def port_list(head: str) -> str:
    """A module's first line with each port in a line of its own."""
    return head.replace(", ", ",\n    ").replace("(", "(\n    ", 1)


def instance_text(module: str, name: str, pins: Mapping[str, str]) -> str:
    """An instance of a module."""
    joined = ", ".join(f".{pin}({net})" for pin, net in pins.items())
    return textwrap.fill(f"{module} {name} ({joined});", _COLUMNS, subsequent_indent="    ", break_long_words=False)


def memory_name(body: LoopBody, operation: Operation) -> str:
    """The name of the memory that an operation accesses."""
    return readable(body.memories[operation.memory].name) or "table"


def _unique(text: str, hint: Callable[[str], str]) -> dict[str, str]:
    """A name for each number of the writer's in a text; no two are equal, with what follows them in the text."""
    endings: dict[str, set[str]] = {}
    for found in _NUMBERED.finditer(text):
        endings.setdefault(found[1], set()).add(found[2] or "")
    taken = set(_TAKEN)
    names = {}
    for token, ends in endings.items():
        renamed = {_ending(end, token) for end in ends}
        name = unused(hint(token), renamed, taken)
        taken.update(name + end for end in renamed | {""})
        names[token] = name
    return names


def unused(hint: str, ends: Collection[str], taken: Collection[str]) -> str:
    """A name like ``hint`` that is not taken, nor with these endings."""
    name, number = hint, 1
    # What has a "_" is no word of Verilog.
    while "_" not in name or name in taken or any(name + end in taken for end in ends):
        number += 1
        name = f"{hint}_{number}"
    return name


def _ending(end: str, token: str) -> str:
    """What follows a name: the age of a value as clocks of delay."""
    if token[0] == "s" and end == "_0":
        return "_next"
    return _AGE.sub(r"_d\1", end)


def _renamed(text: str, mapping: Mapping[str, str]) -> str:
    return _NUMBERED.sub(
        lambda found: mapping[found[1]] + _ending(found[2] or "", found[1]) if found[1] in mapping else found[0], text
    )
