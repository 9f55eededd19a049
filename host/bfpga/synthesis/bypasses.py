"""Registers that are read a cycle later where nothing else becomes later.

A schedule of earliest times uses what a register takes in the very cycle in which it takes it. Of a register that keeps
its value in other cycles that is a selection for each bit; read a cycle later, the register needs none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bfpga.synthesis.body import LoopBody, Opcode
from bfpga.synthesis.netlist.pipeline import FIXED, WIRING, Pipeline
from bfpga.synthesis.schedule_types import Schedule

#: Bits of a variable below which it stays as it is: to know whether others wait is a whole schedule more.
LEAST_BITS = 256
_INDEX = re.compile(r"\[[^]]*\]")


def bypassed_variables(body: LoopBody, schedule: Schedule) -> list[frozenset[int]]:
    """The registers of each variable that are passed by so, as the numbers of their STATE operations; the widest
    first. After the variables come their fields, of all elements together."""
    variables: dict[str, set[int]] = {}
    fields: dict[str, set[int]] = {}
    for state in sorted(_passed_by(body, schedule)):
        register = body.registers[body.operations[state].register]
        if _keeps(body, register.next, state):
            variables.setdefault(register.name.partition("[")[0], set()).add(state)
            fields.setdefault(_INDEX.sub("[]", register.name), set()).add(state)
    wide = [*_wide(body, variables), *_wide(body, fields)]
    return list(dict.fromkeys(wide))


def _wide(body: LoopBody, found: dict[str, set[int]]) -> list[frozenset[int]]:
    """Those with many bits, the widest first."""
    bits = {name: sum(body.operations[state].width for state in states) for name, states in found.items()}
    wide = sorted((name for name in found if bits[name] >= LEAST_BITS), key=lambda name: -bits[name])
    return [frozenset(found[name]) for name in wide]


def _passed_by(body: LoopBody, schedule: Schedule) -> Iterator[int]:
    """STATE operations of which an operation uses the value of the cycle in which it arises."""
    pipeline = Pipeline(body, schedule)
    found = set()
    for index, operation in enumerate(body.operations):
        if operation.opcode in WIRING or operation.opcode in FIXED or operation.opcode is Opcode.STATE:
            continue
        for root in (root for operand in operation.operands for root in pipeline.roots(operand)):
            source = body.operations[root]
            if source.opcode is Opcode.STATE and root not in found and not pipeline.age(root, schedule.stage[index]):
                found.add(root)
                yield root


def _keeps(body: LoopBody, following: int, state: int) -> bool:
    """Whether a register's next value may be the one that it has."""
    waiting, seen = [following], set()
    while waiting:
        index = waiting.pop()
        if index == state:
            return True
        operation = body.operations[index]
        if index in seen or not (operation.opcode in WIRING or operation.opcode is Opcode.SELECT):
            continue
        seen.add(index)
        waiting += operation.operands[1:] if operation.opcode is Opcode.SELECT else operation.operands
    return False
