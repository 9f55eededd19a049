"""When each value of a scheduled loop body is there, and in which register it waits until it is used.

Clock ``interval * i + s`` is stage ``s`` of iteration ``i``. A value of stage ``s`` that is used later is held by a row
of registers, each of which takes its word in one cycle of the interval and keeps it for a whole interval: the value's
``age`` says which register of the row. Age 0 is the value itself in the cycle in which it arises. Registers of
loop-carried state are the first of their row; their age 0 is the next value of the iteration before, where that arises
in the very cycle in which it is used.
"""

from __future__ import annotations

from bfpga.synthesis.body import LoopBody, Opcode
from bfpga.synthesis.netlist.interpret import EXTERNAL, WRITES
from bfpga.synthesis.netlist.significance import Bits, significant_bits
from bfpga.synthesis.schedule_types import Schedule

#: Operations that only name wires: they are made anew where they are used, and what they are made of is kept instead.
WIRING = frozenset({Opcode.ZEXT, Opcode.SEXT, Opcode.SLICE, Opcode.CONCAT})
#: Operations whose value never changes while the loop runs.
FIXED = frozenset({Opcode.CONSTANT, Opcode.INVARIANT})


class Pipeline:
    """Stages of a loop body: of a schedule, or a body without borders (one cycle an iteration).

    ``capture[r]`` is the stage at whose end register ``r`` takes its next value, -1 for one that never changes.
    ValueError if a value is used before it is there: the schedule is wrong.
    """

    def __init__(self, body: LoopBody, schedule: Schedule | None = None) -> None:
        self.body = body
        self.bits: list[Bits] = significant_bits(body)
        count = len(body.operations)
        self.interval = schedule.interval if schedule else 1
        self._stage = schedule.stage if schedule else [0] * count
        self._latency = schedule.latency if schedule else [0] * count
        #: By the operation that is the sum.
        self.accumulators = {each.sum: each for each in schedule.accumulators} if schedule else {}
        #: Digits of the products that are made digit by digit.
        self.digits = schedule.digits if schedule else {}
        self._roots: dict[int, tuple[int, ...]] = {}
        self.capture = self._captures()
        self.frozen = self._frozen()
        self.depth = 1 + max([self.available(index) for index in range(count) if self._computed(index)], default=0)

    def stage(self, index: int) -> int:
        """Stage in which an operation starts, and takes its operands."""
        return self._stage[index]

    def latency(self, index: int) -> int:
        """Registers inside of an operation."""
        return self._latency[index]

    def available(self, index: int) -> int:
        """Stage in which the value of an operation arises; of state: the one before its first."""
        operation = self.body.operations[index]
        if operation.opcode is Opcode.STATE:
            return self.capture[operation.register] - self.interval
        return self._stage[index] + self._latency[index]

    def age(self, index: int, stage: int) -> int:
        """Register of a value's row that holds it at a stage."""
        operation = self.body.operations[index]
        if operation.opcode in FIXED:
            return 0
        if operation.opcode is Opcode.STATE and self.capture[operation.register] < 0:
            return 1
        waits = stage - self.available(index)
        if waits < 0:
            where = f"operation {index} ({operation.opcode.value}{' ' + operation.name if operation.name else ''})"
            raise ValueError(f"{self.body.name}: {where} is used in stage {stage} and there only {-waits} later")
        return -(-waits // self.interval)

    def roots(self, index: int) -> tuple[int, ...]:
        """Operations whose wires a value is made of: itself unless it is wiring."""
        if index not in self._roots:
            operation = self.body.operations[index]
            found: dict[int, None] = {index: None}
            if operation.opcode in WIRING:
                found = dict.fromkeys(root for operand in operation.operands for root in self.roots(operand))
            self._roots[index] = tuple(found)
        return self._roots[index]

    def results(self) -> list[int]:
        """Values that are used after the loop and are no next value of a register, which would keep them."""
        kept = {register.next for register in self.body.registers}
        kept |= {self.body.registers[number].current for number in self.frozen}
        if self.body.exports:
            operations = self.body.operations
            found = dict.fromkeys(self.body.exports.values())
            return [index for index in found if index not in kept and operations[index].opcode not in FIXED]
        kept |= {each.current for each in self.body.registers}
        return [index for index in self.body.outputs if index not in kept]

    def _frozen(self) -> frozenset[int]:
        """Registers that the last iteration leaves as they were: phis of which others use the word that it began with.

        What such a register would become in that iteration nobody uses.
        """
        body = self.body
        used = set(body.exports.values())
        if body.leaves < 0 or not used:
            return frozenset()
        known = self.ready(body.leaves)
        blocks = {each.register for each in self.accumulators.values()}
        return frozenset(
            number
            for number, own in enumerate(body.registers)
            if own.current in used and own.next not in used and body.origins[own.name.split("@")[0]].offset < 0
            and self.capture[number] >= known and number not in blocks
        )  # fmt: skip

    def result_stage(self, index: int) -> int:
        """Stage in which a value that is used after the loop is taken: no iteration after the last one reaches it."""
        if not self.body.exports or self.body.leaves < 0:
            return self.ready(index)
        return max(self.ready(index), self.ready(self.body.leaves))

    def ready(self, index: int) -> int:
        """First stage in which all that a value is made of is there."""
        operations = self.body.operations
        stages = [0]
        for root in self.roots(index):
            if operations[root].opcode not in FIXED:
                stages.append(self.available(root) + int(operations[root].opcode is Opcode.STATE))
        return max(stages)

    def _computed(self, index: int) -> bool:
        opcode = self.body.operations[index].opcode
        return opcode not in FIXED and opcode is not Opcode.STATE and opcode not in WIRING

    def _captures(self) -> list[int]:
        """Stage of each register: where its next value is computed, or, of one that another register moves into, the
        latest that its own users allow."""
        body, interval = self.body, self.interval
        latest = self._latest_captures()
        fixed: list[int | None] = []
        moves: list[list[int]] = []
        for register in body.registers:
            roots = self.roots(register.next)
            computed = [self._stage[root] + self._latency[root] for root in roots if self._computed(root)]
            fixed.append(max(computed) if computed else None)
            moves.append([body.operations[root].register for root in roots if self._is_state(root)])
        held = [register.next == register.current for register in body.registers]
        capture = [-1 if hold else stage or 0 for hold, stage in zip(held, fixed, strict=True)]
        for _ in range(len(capture) + 1):
            before = list(capture)
            for index, sources in enumerate(moves):
                if held[index]:
                    continue
                first = max([capture[source] - interval for source in sources], default=0)
                stage = fixed[index]
                if stage is None:
                    stage = min(max([capture[source] for source in sources], default=0), latest[index])
                capture[index] = max(stage, first, 0)
            if capture == before:
                break
        return capture

    def _is_state(self, index: int) -> bool:
        return self.body.operations[index].opcode is Opcode.STATE

    def _latest_captures(self) -> list[int]:
        """Last stage at whose end each register may change: its first user in the next iteration needs it after."""
        body, interval = self.body, self.interval
        never = 1 << 30
        latest = [never] * len(body.registers)
        for index, operation in enumerate(body.operations):
            if not (self._computed(index) or operation.opcode in WRITES or operation.opcode in EXTERNAL):
                continue
            for operand in operation.operands:
                for root in self.roots(operand):
                    if self._is_state(root):
                        register = body.operations[root].register
                        latest[register] = min(latest[register], self._stage[index] + interval - 1)
        for _ in body.registers:
            changed = False
            for index, each in enumerate(body.registers):
                for root in self.roots(each.next):
                    source = body.operations[root].register if self._is_state(root) else -1
                    if source >= 0 and latest[source] > latest[index] + interval - 1:
                        latest[source], changed = latest[index] + interval - 1, True
            if not changed:
                break
        return [0 if stage == never else stage for stage in latest]
