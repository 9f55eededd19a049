"""Loops of an accelerator proved on recorded streams: the code against its graph, the graph against its netlist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bfpga.accelerator.loader import Accelerator
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.registers import INPUT_STREAM, OUTPUT_STREAM, WEIGHT_STREAM
from bfpga.errors import ToolError
from bfpga.synthesis.body import LoopBody
from bfpga.synthesis.driver import clock_of
from bfpga.synthesis.frontend.kernel import analyse_kernel
from bfpga.synthesis.netlist.recording import Run
from bfpga.synthesis.netlist.simulate import Simulator, differences
from bfpga.synthesis.netlist.verilog import translate
from bfpga.synthesis.replay import Replay
from bfpga.synthesis.schedule import schedule_loop

#: Widest beats that a replay feeds: its streams are 64-bit words.
WIDEST_BEAT = 64
_ITERATIONS = 200
#: Iterations of a run that the netlist repeats.
_REPEATED = 40
_STREAMS = {0: INPUT_STREAM, 1: WEIGHT_STREAM, 2: OUTPUT_STREAM}
_DESCRIPTORS, _CONTROL = 3, 4


@dataclass(frozen=True)
class Proof:
    """``iterations`` of a loop in which code and graph agreed, and those that its netlist repeated bit by bit."""

    loop: str
    iterations: int
    netlist: int


def prove(
    accelerator: Accelerator, vectors: Mapping[str, bytes], only: str = "", hear: Callable[[Proof], None] | None = None
) -> list[Proof]:
    """Replays every loop on recorded starts. ``vectors``: files of a test bench (`verify.vectors.kernel_vectors`).

    Raises:
        ToolError: a tool is missing, or beats are wider than a replay can feed.
        ReplayDifferenceError: the graph does other than the code; an output differs from the recorded one.
    """
    config = accelerator.systolic
    if max(config.stream_bits, config.weight_stream_bits) > WIDEST_BEAT:
        raise ToolError(f"replaying needs streams of {WIDEST_BEAT} bits, and {accelerator.name} has wider ones")
    analysis, *others = analyse_kernel(accelerator, only)
    if others:
        raise ToolError(f"replaying needs a kernel of one IP, and that of {accelerator.name} has {1 + len(others)}")
    proofs = []
    for body in analysis.loops:
        if body.stated_interval:
            replay = Replay(analysis.flat, body, _STREAMS, _ITERATIONS)
            _replay_starts(replay, config, vectors)
            repeated = sum(_repeat(accelerator, body, run) for run in _longest(replay.runs))
            proofs.append(Proof(f"{body.name} ({body.place})", replay.compared, repeated))
            if hear is not None:
                hear(proofs[-1])
    return proofs


def _replay_starts(replay: Replay, config: SystolicConfig, vectors: Mapping[str, bytes]) -> None:
    for line in vectors["starts.txt"].decode().splitlines():
        name, descriptors, clear, *_ = line.split()
        incoming = {
            INPUT_STREAM: _beats(vectors.get(f"{name}.input.bin", b""), config.stream_bits),
            WEIGHT_STREAM: _beats(vectors.get(f"{name}.weights.bin", b""), config.weight_stream_bits),
        }
        written = replay.run({_DESCRIPTORS: int(descriptors), _CONTROL: int(clear)}, incoming)
        replay.check_outputs(name, written, _beats(vectors.get(f"{name}.output.bin", b""), config.stream_bits))


def _beats(content: bytes, bits: int) -> list[int]:
    size = bits // 8
    return [int.from_bytes(content[k : k + size], "little") for k in range(0, len(content), size)]


def _longest(runs: list[Run]) -> list[Run]:
    longest = max(runs, key=lambda run: len(run.iterations), default=None)
    return [longest] if longest is not None and longest.iterations else []


def _repeat(accelerator: Accelerator, body: LoopBody, run: Run) -> int:
    """Iterations of a run that the netlist does as the graph; ToolError where it does other."""
    schedule = schedule_loop(body, accelerator.board.part, clock_of(accelerator))
    simulator = Simulator(translate(body, schedule))
    short = Run(run.initial, run.invariants, run.iterations[:_REPEATED])
    found = differences(simulator, short)
    if found:
        raise ToolError(f"{body.name}: the netlist does other than its graph: {found[0]}")
    return len(short.iterations)
