"""How long this machine takes for the operators that a program leaves to the host, measured one sample at a time."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from bfpga.contract.program import BlockTensor, HostNode, MatMulNode, Program
from bfpga.devices.host import host_function, onnx_runtime_installed
from bfpga.devices.host_batches import HostArray, HostFunction
from bfpga.devices.matmul import decode_product
from bfpga.devices.values import Values
from bfpga.errors import ProgramError
from bfpga.formats.block_float import mantissa_dtype

#: A node is run this often, or until this much time has gone by.
RUNS, SECONDS = 25, 0.2
#: Nodes with more operations, many seconds of any machine, are not run to be measured.
LARGEST = 10**11


@dataclass(frozen=True)
class HostTime:
    """Seconds of each host node for one sample of a program, the fastest of several runs, by name; where, by what."""

    nodes: dict[str, float]
    cpu: str
    library: str

    @property
    def seconds(self) -> float:
        return sum(self.nodes.values())


def measure_host(program: Program) -> HostTime:
    """Run the host nodes of ``program`` on one sample of positive noise and measure each; the array computes nothing.

    What the array would give is noise too: times hardly depend on values, shapes are the program's. ProgramError if a
    node cannot be run here or takes too long to be run for its time alone.
    """
    noise = _Noise(program)
    values = Values(program, noise.inputs())
    nodes: dict[str, float] = {}
    for node in program.nodes:
        if isinstance(node, HostNode):
            results, nodes[node.name] = _measure(node, {name: values.on_host(name) for name in node.inputs})
            values.host.update(results)
        elif isinstance(node, MatMulNode):
            values.host[node.output] = noise.product(node)
        else:
            values.array[node.output] = noise.tensor(node.output)
    return HostTime(nodes, cpu_name(), "ONNX Runtime" if onnx_runtime_installed() else "numpy")


def _measure(node: HostNode, inputs: Mapping[str, HostArray]) -> tuple[dict[str, HostArray], float]:
    """Results of a node and the time of its fastest run, the one that other processes disturbed least."""
    if node.flops > LARGEST:
        raise ProgramError(f"host node {node.name} takes {node.flops:,} operations a sample")
    function: HostFunction = host_function(node)
    seconds: list[float] = []
    while len(seconds) < RUNS and sum(seconds) < SECONDS:
        start = perf_counter()
        results = function(inputs)
        seconds.append(perf_counter() - start)
    return results, min(seconds)


class _Noise:
    """One sample of values between 0 and 1 for everything that is no result of the host."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.random = np.random.default_rng(0)

    def inputs(self) -> dict[str, HostArray]:
        shapes = self.program.inputs
        return {name: self.random.random((1, *shape), np.float32) for name, shape in shapes.items()}

    def tensor(self, name: str) -> BlockTensor:
        """A tensor as the array gives it."""
        spec = self.program.tensors[name]
        return self._block((1, spec.height, spec.width, spec.channels))

    def product(self, node: MatMulNode) -> HostArray:
        """A product of two activations as the host reads it."""
        return decode_product(node, self._block((node.batch, node.rows, 1, node.columns)), self.program)

    def _block(self, shape: tuple[int, ...]) -> BlockTensor:
        bits = self.program.config.format.mantissa_bits
        mantissa = self.random.integers(0, 1 << (bits - 1), shape).astype(mantissa_dtype(bits))
        return BlockTensor(mantissa, np.full(shape[0], 1 - bits, np.int32))


def cpu_name() -> str:
    """The processor that this runs on, with the number of cores that are open to this process."""
    name = ""
    info = Path("/proc/cpuinfo")
    if info.exists():
        fields = (line.partition(":") for line in info.read_text().splitlines())
        name = next((value.strip() for key, _, value in fields if key.strip() == "model name"), "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{name or platform.processor() or platform.machine()} ({cores} core{'s' * (cores > 1)})"
