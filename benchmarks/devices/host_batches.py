"""What host operators cost when they are called for many samples, and while the kernel computes others.

    python -m benchmarks.devices.host_batches [--samples N] [--repeats N] [--json FILE]

First table: host nodes of networks, all samples in as few calls as keep their bits, and one by one; medians of
interleaved runs. Second table: whole runs. Their kernel answers after the time that its clocks take, with recorded
results, and takes no time of the processor, as on a board; *apart* is the kernel's part of all samples, and the host's
part one by one after it.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import numpy as np

from benchmarks.common.command import TEST_SUPPORT, command
from benchmarks.common.report import write_json
from benchmarks.common.timing import medians
from bfpga.accelerator.loader import load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.contract.program import HostNode, HostStep, Program
from bfpga.devices import host
from bfpga.devices.csim import CSimulation
from bfpga.devices.emulator import Emulator
from bfpga.devices.host_batches import HostFunction, in_batches, one_by_one
from bfpga.devices.kernel_start import KernelResult, KernelStart
from bfpga.devices.streaming_device import StreamingDevice

sys.path.insert(0, str(TEST_SUPPORT))

from small_networks import Network

ACCELERATOR = "pynq_z2_dense"
#: Networks of ``network_zoo`` beside the classifier.
MEMBERS = ("vit_block", "espcn", "mobilenet_v3")


class Replay:
    """A kernel that gives recorded results after the time that their clocks take, while the host may do other work.

    A start that waits is launched when the result of the one before is taken, as by the driver of a board.
    """

    depth = 2

    def __init__(self, results: list[KernelResult], hertz: float) -> None:
        self.results, self.hertz = deque(results), hertz
        self.seconds: dict[str, float] = {}
        self.pending: deque[KernelResult] = deque()
        self.launched = 0.0

    def begin(self, start: KernelStart) -> None:
        if not self.pending:
            self.launched = perf_counter()
        self.pending.append(self.results[0])
        self.results.rotate(-1)

    def finish(self) -> KernelResult:
        result = self.pending.popleft()
        sleep(max(0.0, self.launched + result.cycles / self.hertz - perf_counter()))
        self.launched = perf_counter()
        return result

    def cancel(self) -> None:
        self.pending.clear()

    def close(self) -> None:
        """Nothing is held open."""


class Recorder(CSimulation):
    """A C simulation that keeps what it gives."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.config, "native", program.accelerator, program.digest)
        self.given: list[KernelResult] = []

    def finish(self) -> KernelResult:
        self.given.append(super().finish())
        return self.given[-1]


class SampleBySample(StreamingDevice):
    """A device on which no samples share a start."""

    def _may_group(self) -> bool:
        return False


Inputs = dict[str, np.ndarray]
Made = Callable[[Program, Any, str], StreamingDevice]


def classifier() -> Network:
    """Two convolutions, ten classes, a Softmax."""
    network = Network(1, 28, 28)
    for channels, inputs in ((8, 1), (16, 8)):
        network.conv(channels, inputs, 3, strides=[2, 2])
        network.add("Relu")
    network.add("GlobalAveragePool")
    network.add("Flatten")
    network.add("Gemm", network.last, network.weights(16, 10))
    network.add("Softmax")
    return network


def programs(samples: int, folder: Path) -> dict[str, tuple[Program, Inputs]]:
    """Programs that leave operators to the host, each with samples."""
    from benchmarks.compiler.network_zoo import ZOO

    built = {"classifier": classifier()} | {one.name: one.build() for one in ZOO if one.name in MEMBERS}
    found = {}
    for name, network in built.items():
        path = folder / f"{name}.onnx"
        path.write_bytes(network.model().SerializeToString())
        inputs = network.samples(samples)
        program = compile_network(path, load_accelerator(ACCELERATOR), inputs)
        found[name] = program, inputs
    return found


def host_inputs(program: Program, inputs: Inputs) -> dict[str, Inputs]:
    """What each host node reads, by its name."""
    seen: dict[str, Inputs] = {}
    emulator = Emulator(program, probe=False)
    for index, function in dict(emulator.host).items():
        name = program.nodes[index].name

        def noted(values: Any, of: HostFunction = function, name: str = name) -> dict[str, np.ndarray]:
            seen[name] = dict(values)
            return of(values)

        emulator.host[index] = noted
    emulator.run(inputs)
    return seen


def functions(program: Program, way: Callable[[HostNode, HostFunction], HostFunction]) -> dict[str, HostFunction]:
    """The host nodes' functions, called in a way."""
    kept, host.in_batches = host.in_batches, way
    try:
        return {node.name: host.host_function(node) for node in program.nodes if isinstance(node, HostNode)}
    finally:
        host.in_batches = kept


def node_table(program: Program, inputs: Inputs, repeats: int) -> dict[str, float]:
    """Seconds of all host nodes together: as they are called now, and one by one."""
    seen = host_inputs(program, inputs)

    def run(called: dict[str, HostFunction]) -> None:
        for node, function in called.items():
            function(seen[node])

    together, alone = functions(program, in_batches), functions(program, one_by_one)
    return medians({"together": partial(run, together), "one by one": partial(run, alone)}, repeats)


def replayed(program: Program, inputs: Inputs, made: Made) -> StreamingDevice:
    """A device of the kernel's answers to these samples."""
    recorder = Recorder(program)
    device = made(program, recorder, "recorded")
    setup = len(recorder.given)
    device.run(inputs)
    device.close()
    replay = Replay(recorder.given, load_accelerator(ACCELERATOR).clock_mhz * 1e6)
    opened = made(program, replay, "replayed")
    replay.results = deque(recorder.given[setup:])
    return opened


def run_table(program: Program, inputs: Inputs, repeats: int) -> dict[str, float]:
    """Seconds of a run: groups with the host beside the kernel, groups with the host after it, sample by sample."""
    way, host.in_batches = host.in_batches, one_by_one
    alone = replayed(program, inputs, SampleBySample)
    host.in_batches = way
    now = replayed(program, inputs, StreamingDevice)
    candidates: dict[str, Callable[[], object]] = {
        "now": partial(now.run, inputs), "sample by sample": partial(alone.run, inputs)
    }
    array = [step for step in program.steps if not isinstance(step, HostStep)]
    if len(array) == 1 and program.steps[0] is array[0]:
        seen, called = host_inputs(program, inputs), functions(program, one_by_one)
        leaving = {name: value.shape[1:] for values in seen.values() for name, value in values.items()}
        kernel = replayed(replace(program, steps=array, outputs=leaving), inputs, StreamingDevice)

        def apart() -> None:
            kernel.run(inputs)
            for node, function in called.items():
                function(seen[node])

        candidates["apart"] = apart
    return medians(candidates, repeats)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--json")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args(arguments)
    content: dict[str, Any] = {"samples": given.samples}
    with TemporaryDirectory() as folder:
        for name, (program, inputs) in programs(given.samples, Path(folder)).items():
            kinds = [kind for node in program.nodes if isinstance(node, HostNode) for kind in node.operators]
            nodes, runs = node_table(program, inputs, given.repeats), run_table(program, inputs, given.repeats)
            content[name] = {"operators": kinds, "steps": len(program.steps), "host": nodes, "run": runs}
            print(f"{name}: {len(program.steps)} steps, {len(kinds)} operators of the host, {given.samples} samples")
            for title, times, base in (("host operators", nodes, "together"), ("whole run", runs, "now")):
                for other in times:
                    ratio = "" if other == base else f", {times[other] / times[base]:.2f} times {base}"
                    print(f"  {title}, {other}: {1e6 * times[other] / given.samples:.1f} us a sample{ratio}")
    write_json(given.json, content)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
