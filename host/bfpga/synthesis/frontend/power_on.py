"""What the static variables of a function are at power-on: their initializers, and what their constructors store.

C++ constructs a static variable of a function when the function is called for the first time, under a guard. Hardware
has these words in its registers and memories when it is configured. So the constructors run here, once, on this
machine, and the function is left as it is after its first call.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bfpga.errors import ToolError
from bfpga.synthesis.frontend.flatten import LOOP_NOTE
from bfpga.synthesis.frontend.ir import Function, Instruction, Layouts, Module, phi_pairs, split_type
from bfpga.synthesis.frontend.llvm import llvm_library

if TYPE_CHECKING:
    from llvmlite.binding import ExecutionEngine

_GUARD = re.compile(r"i8, ptr (@_ZGV[\w.$]+|@\"_ZGV[^\"]+\")")
_STATIC = re.compile(
    r'^(@"[^"]+"|@[\w.$-]+) = internal (?:unnamed_addr )?global (.*?)(?:, align|, !dbg|$)', re.MULTILINE
)
_FUNCTION = re.compile(r"^define [^\n]*\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
_CONSTRUCT = "bfpga_construct"


@dataclass(frozen=True, slots=True)
class PowerOn:
    """``words``: bytes of each static variable, by its name in the code."""

    words: dict[str, bytes]


def power_on(flat: str, module: Module, function: Function) -> PowerOn:
    """Runs the constructors of a function and removes them from it.

    Raises:
        ToolError: what the function does before its variables are constructed is not understood.
    """
    built = _constructors(function)
    texts = [_extracted(function, guarded, number) for number, guarded in enumerate(built)]
    for guarded in built:
        _remove(function, guarded)
    statics = _STATIC.findall(flat)
    layouts = Layouts(module.structures)
    sizes = {name: layouts.of(split_type(kind)[0].rstrip(",")).size for name, kind in statics}
    text = re.sub(r"^(@\S+) = internal ((?:unnamed_addr )?global)", r"\1 = \2", flat, flags=re.MULTILINE)
    # The function itself is not run; it may have numbers of more bits than this machine's compiler shifts.
    engine = _compiled("\n".join([_FUNCTION.sub("", text), *texts]))
    for number in range(len(built)):
        ctypes.CFUNCTYPE(None)(engine.get_function_address(f"{_CONSTRUCT}{number}"))()
    words = {}
    for name, size in sizes.items():
        address = engine.get_global_value_address(name.lstrip("@").strip('"'))
        words[name] = ctypes.string_at(address, size)
    return PowerOn(words)


@dataclass(frozen=True, slots=True)
class _Guarded:
    """Blocks of a constructor: entered from ``test``; ``join``: where the function goes on."""

    test: str
    first: str
    join: str
    blocks: tuple[str, ...]


def _constructors(function: Function) -> list[_Guarded]:
    found = []
    for name, block in function.blocks.items():
        guards = {i.result for i in block.instructions if i.opcode == "load" and _GUARD.match(i.text)}
        tests = {i.result for i in block.instructions if i.opcode == "icmp" and i.text.split()[2].strip(",") in guards}
        last = block.instructions[-1]
        if last.opcode == "br" and last.text.startswith("i1 ") and last.text.split()[1].strip(",") in tests:
            first, join = block.successors()
            inside: dict[str, None] = {}
            stack = [first]
            while stack:
                current = stack.pop()
                if current != join and current not in inside:
                    inside[current] = None
                    stack.extend(function.blocks[current].successors())
            found.append(_Guarded(name, first, join, tuple(inside)))
    return found


def _remove(function: Function, guarded: _Guarded) -> None:
    for name in guarded.blocks:
        del function.blocks[name]
    function.blocks[guarded.test].instructions[-1] = Instruction("", "br", f"label {guarded.join}")
    for instruction in function.blocks[guarded.join].instructions:
        if instruction.opcode == "phi":
            kind = split_type(instruction.text)[0]
            pairs = [(v, b) for v, b in phi_pairs(instruction.text) if b not in guarded.blocks]
            instruction.text = f"{kind} " + ", ".join(f"[ {value}, {before} ]" for value, before in pairs)


def _extracted(function: Function, guarded: _Guarded, number: int) -> str:
    """The constructor as a function of its own."""
    lines = [f"define void @{_CONSTRUCT}{number}() {{"]
    order = [guarded.first, *(name for name in guarded.blocks if name != guarded.first)]
    lines += ["begin:", f"  br label {guarded.first}"]
    for name in order:
        lines.append(f"{name[1:]}:")
        for instruction in function.blocks[name].instructions:
            if instruction.opcode == "call" and f"@{LOOP_NOTE}" in instruction.text:
                continue
            text = re.sub(r" #\d+$", "", instruction.text)
            if instruction.opcode in ("br", "switch"):
                text = re.sub(rf"label {re.escape(guarded.join)}(?![\w.$-])", "label %left", text)
            elif instruction.opcode == "phi":
                text = re.sub(rf", {re.escape(guarded.test)} \]", ", %begin ]", text)
            assigned = f"{instruction.result} = " if instruction.result else ""
            lines.append(f"  {assigned}{instruction.opcode} {text}")
    return "\n".join([*lines, "left:", "  ret void", "}", ""])


def _compiled(text: str) -> ExecutionEngine:
    llvm = llvm_library()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    callback = ctypes.CFUNCTYPE(None)(lambda: None)
    llvm.add_symbol(LOOP_NOTE, ctypes.cast(callback, ctypes.c_void_p).value)
    try:
        parsed = llvm.parse_assembly(text)
        parsed.verify()
    except RuntimeError as error:
        raise ToolError(f"the constructors of a process are not understood: {str(error).splitlines()[0]}") from None
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(opt=0)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    return engine
