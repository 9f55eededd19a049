"""Vectors for the testbench of a rendered project: kernel starts that the emulator has confirmed bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import Program
from bfpga.devices.base import Device
from bfpga.devices.csim import CSimulation
from bfpga.devices.kernel_device import KernelDevice
from bfpga.devices.kernel_start import KernelResult, Octets
from bfpga.errors import DeviceError
from bfpga.verify.check import verify

#: Random networks in a project's vectors; each is a handful of kernel starts.
NETWORKS = 3


@dataclass
class Recorder:
    """The streams and results of kernel starts as files of a testbench: name -> content."""

    files: dict[str, bytes] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def add(self, control: int, descriptors: int, packet: Octets, weights: Octets, result: KernelResult) -> None:
        name = f"start{len(self.lines)}"
        numbers = [descriptors, control, result.cycles, result.overflow, result.underflow, result.status]
        numbers += result.checksums
        self.lines.append(" ".join([name, *map(str, numbers)]))
        self.files |= {
            f"{name}.input.bin": bytes(packet),
            f"{name}.weights.bin": bytes(weights),
            f"{name}.output.bin": result.output,
        }


class _RecordedKernel(CSimulation):
    """A simulated kernel that keeps what it was given and what it gave. Its first start clears the policies."""

    def __init__(self, program: Program, recorder: Recorder) -> None:
        super().__init__(program.config, name=program.accelerator, digest=program.digest)
        self._recorder = recorder
        self._fresh = True

    def run_beats(
        self, descriptors: int, packet: Octets, weights: Octets, capacity: int, clear_policies: bool
    ) -> KernelResult:
        clear_policies = clear_policies or self._fresh
        result = super().run_beats(descriptors, packet, weights, capacity, clear_policies)
        # A start without descriptors has no frame: the process that takes compressed maps apart waits for the next
        # start's, which hardware allows and a testbench, whose processes end with each start, does not.
        # The next start clears in its place.
        left_out = self._maps is not None and not len(packet)
        self._fresh = clear_policies and left_out
        if left_out:
            return result
        self._recorder.add(int(clear_policies), descriptors, packet, weights, result)
        return result


def kernel_vectors(config: KernelConfig) -> dict[str, bytes]:
    """Files of ``tb/vectors``: random networks on an array, executed by its C simulation.

    DeviceError if the emulator disagrees; ToolError without a C++ compiler.
    """
    recorder = Recorder()

    def recording(target: str) -> Callable[[Program], Device]:
        return lambda program: KernelDevice(program, _RecordedKernel(program, recorder), target)

    report = verify([config], ["csim"], NETWORKS, device_for=recording)
    if report.mismatch:
        raise DeviceError(f"the emulator and the C simulation of this array disagree: {report.mismatch}")
    return recorder.files | {"starts.txt": ("\n".join(recorder.lines) + "\n").encode()}
