"""What the driver takes of a board's core for a sample: measured on a PC, scaled as the host's operators are.

``driver_time.json`` is what `benchmarks/board/driver_time.py` measured. No board has been measured.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from bfpga.accelerator.boards import ArmCores
from bfpga.contract.descriptor import Operation
from bfpga.contract.program import HostNode, Program
from bfpga.estimate.program import ProgramEstimate
from bfpga.program.cycles import SampleStart
from bfpga.program.groups import sent_bytes


@dataclass(frozen=True)
class DriverTime:
    """Seconds of a start, of a value of the host that is encoded and of a byte of the streams; where, and on what runs.

    samples, start_samples, start_bytes: of a run, most of a start, and most bytes of a start's stream.
    """

    start: float
    value: float
    byte: float
    cpu: str
    samples: int
    start_samples: int
    start_bytes: int

    def sample_seconds(self, program: Program, estimate: ProgramEstimate) -> float:
        """Seconds of a sample of a long run, all its starts together, where it was measured."""
        return sum(one.times * self._start_seconds(program, one) for one in estimate.cycles.starts)

    def _start_seconds(self, program: Program, start: SampleStart) -> float:
        moved = sent_bytes(program, start)
        together = max(1, min(self.start_samples, self.start_bytes // max(1, moved))) if start.shared else 1
        return self.start / together + self.value * encoded_values(program, start) + self.byte * moved


@cache
def driver_time() -> DriverTime:
    """What was measured."""
    content = json.loads(files("bfpga.estimate").joinpath("driver_time.json").read_text())
    limits = {name: content[name] for name in ("cpu", "samples", "start_samples", "start_bytes")}
    return DriverTime(**content["seconds"], **limits)


def driver_seconds(program: Program, estimate: ProgramEstimate, cores: ArmCores | None) -> float | None:
    """Seconds of a sample of a long run on one core of a board; None where a board's cores are not known."""
    return None if cores is None else cores.call_factor * driver_time().sample_seconds(program, estimate)


def encoded_values(program: Program, start: SampleStart) -> int:
    """Elements of a sample that the host encodes: of loaded tensors that the array does not give."""
    loaded = {one.transfer.tensor for one in start.operations
              if one.transfer is not None and one.descriptor.operation == Operation.LOAD}  # fmt: skip
    computed = {node.output for node in program.nodes if not isinstance(node, HostNode)}
    specs = [program.tensors[name] for name in loaded - computed]
    return sum(spec.height * spec.width * spec.channels for spec in specs if spec.constant is None)
