"""Loops of an accelerator proved on recorded streams: the code against its graph, the graph against its netlist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.registers import ARGUMENT_REGISTERS
from bfpga.errors import ConfigurationError, ToolError
from bfpga.synthesis.body import LoopBody
from bfpga.synthesis.driver import clock_of
from bfpga.synthesis.frontend.kernel import analyse_kernel
from bfpga.synthesis.netlist.recording import Run
from bfpga.synthesis.netlist.simulate import Simulator, differences
from bfpga.synthesis.netlist.verilog import translate
from bfpga.synthesis.replay import Replay
from bfpga.synthesis.schedule import schedule_loop
from bfpga.synthesis.traffic import Traffic
from bfpga.vendor.kernel_ips import KernelIp, kernel_ips
from bfpga.vendor.render import top_files

#: Iterations of a loop that are compared, spread over all that the C simulation has.
ITERATIONS = 200


@dataclass(frozen=True)
class Proof:
    """``iterations`` of a loop in which code and graph agreed, and those that its netlist repeated bit by bit."""

    loop: str
    iterations: int
    netlist: int


@dataclass(frozen=True)
class RecordedLoop:
    """A loop of an IP with the flat code of the IP and what passed its streams."""

    ip: KernelIp
    flat: str
    body: LoopBody
    traffic: Traffic

    @property
    def title(self) -> str:
        """The loop in a message."""
        name = f"{self.ip.part}: {self.body.name}" if self.ip.part else self.body.name
        return f"{name} ({self.body.place})"

    def replay(self, iterations: int = ITERATIONS) -> Replay:
        """The IP with the loop under observation."""
        registers = [register.name for register in ARGUMENT_REGISTERS] if self.ip.control else []
        return Replay(self.flat, self.body, self.ip.streams, registers, self.traffic, iterations)


def prove(
    accelerator: Accelerator,
    traffic: Sequence[Traffic],
    only: str = "",
    iterations: int = ITERATIONS,
    on_proof: Callable[[Proof], None] | None = None,
) -> list[Proof]:
    """Replays every loop of every IP, or those with a label. ``traffic``: of each IP (`verify.traffic`).

    Raises:
        ConfigurationError: no loop has the label.
        ToolError: a tool is missing; a netlist does other than its graph.
        ReplayDifferenceError: the graph does other than the code, the code other than the C simulation.
    """
    proofs = []
    for loop in recorded_loops(accelerator, traffic, only):
        replay = loop.replay(iterations)
        replay.run()
        repeated = repeated_iterations(accelerator, loop, replay.runs)
        proofs.append(Proof(loop.title, replay.compared, repeated))
        if on_proof is not None:
            on_proof(proofs[-1])
    if not proofs:
        raise ConfigurationError(f"{accelerator.name} has no pipelined loop with the label {only}")
    return proofs


def recorded_loops(accelerator: Accelerator, traffic: Sequence[Traffic], only: str = "") -> list[RecordedLoop]:
    """The loops with a stated interval, IP by IP.

    Raises:
        ToolError: clang is missing or refuses the kernel.
    """
    by_source = {ip.source: (ip, of_ip) for ip, of_ip in zip(kernel_ips(accelerator.config), traffic, strict=True)}
    loops = []
    for source, analysis in zip(top_files(accelerator.config), analyse_kernel(accelerator, only), strict=True):
        ip, of_ip = by_source[source]
        loops += [RecordedLoop(ip, analysis.flat, body, of_ip) for body in analysis.loops if body.stated_interval]
    return loops


def repeated_iterations(accelerator: Accelerator, loop: RecordedLoop, runs: Sequence[Run]) -> int:
    """How many iterations the netlist of a loop has done as they were recorded, which are all of them.

    Raises:
        ToolError: Yosys or a C++ compiler is missing; the netlist does other than the recorded iterations.
    """
    if not runs:
        return 0
    schedule = schedule_loop(loop.body, accelerator.board.part, clock_of(accelerator, loop.ip.part))
    simulator = Simulator(translate(loop.body, schedule))
    for run in runs:
        found = differences(simulator, run)
        if found:
            raise ToolError(f"{loop.body.name}: the netlist does other than its graph: {found[0]}")
    return sum(len(run.iterations) for run in runs)
