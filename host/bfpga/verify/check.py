"""One random case on two devices, compared bit by bit; and many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.devices.base import Device, DeviceResult, LayerResult
from bfpga.devices.csim import CSimulation, Integers, build
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.engines.configuration import SystolicConfig
from bfpga.errors import ConfigurationError
from bfpga.network.program import BlockTensor, HostNode, Program
from bfpga.verify.random_accelerator import random_config
from bfpga.verify.random_network import random_program

#: Devices a case can be verified against -> the integers of their C simulation.
TARGETS: dict[str, Integers] = {"csim": "native", "csim:ap_int": "ap_int"}
#: Samples of one case: more than one, because policies learn from sample to sample.
SAMPLES = 3


@dataclass
class Mismatch:
    """The first difference of a case: where, what the emulator has and what the device has."""

    where: str
    index: tuple[int, ...]
    expected: int | float | str
    got: int | float | str

    def __str__(self) -> str:
        place = f" at {self.index}" if self.index else ""
        return f"{self.where}{place}: the emulator has {self.expected}, the device has {self.got}"


@dataclass
class VerifyReport:
    """What was verified. A mismatch ends the verification."""

    cases: int = 0
    accelerators: int = 0
    layers: int = 0
    values: int = 0
    seconds: float = 0.0
    targets: list[str] = field(default_factory=list)
    #: Seeds that repeat the failing case: (accelerator, network).
    seed: tuple[int, int] | None = None
    target: str = ""
    mismatch: Mismatch | None = None


def first_difference(where: str, expected: npt.NDArray[Any], got: npt.NDArray[Any]) -> Mismatch | None:
    """The first element that differs, or the shapes if they do."""
    if expected.shape != got.shape:
        return Mismatch(f"shape of {where}", (), str(expected.shape), str(got.shape))
    places = np.argwhere(expected != got)
    if not len(places):
        return None
    index = tuple(int(number) for number in places[0])
    return Mismatch(where, index, expected[index].item(), got[index].item())


def compare_tensors(layer: str, expected: BlockTensor, got: BlockTensor) -> Mismatch | None:
    """Exponents first: with another exponent every mantissa differs."""
    return first_difference(f"exponent of {layer}", expected.exponent, got.exponent) or first_difference(
        f"mantissa of {layer}", expected.mantissa, got.mantissa
    )


def compare_layers(expected: LayerResult, got: LayerResult) -> Mismatch | None:
    """Counters and status bits of one layer."""
    for name in ("overflows", "underflows", "status"):
        pair = [getattr(layer.counters, name, None) for layer in (expected, got)]
        if pair[0] != pair[1]:
            return Mismatch(f"{name} of {expected.name}", (), str(pair[0]), str(pair[1]))
    return None


def compare_traces(program: Program, expected: DeviceResult, got: DeviceResult) -> Mismatch | None:
    """Every tensor, counter and status bit of two traced runs, in the order of the layers."""
    for node, ours, theirs in zip(program.nodes, expected.layers, got.layers, strict=True):
        if isinstance(node, HostNode):
            continue
        found = compare_tensors(node.name, expected.tensors[node.output], got.tensors[node.output])
        found = found or compare_layers(ours, theirs)
        if found:
            return found
    return None


def compare_runs(expected: DeviceResult, got: DeviceResult) -> Mismatch | None:
    """Outputs and clocks of two runs."""
    for name, values in expected.outputs.items():
        found = first_difference(f"output {name}", values, got.outputs[name])
        if found:
            return found
    for ours, theirs in zip(expected.layers, got.layers, strict=True):
        if ours.cycles != theirs.cycles:
            return Mismatch(f"cycles of {ours.name}", (), ours.cycles, theirs.cycles)
    return None


def random_inputs(rng: np.random.Generator, program: Program) -> dict[str, npt.NDArray[np.float32]]:
    """Samples with outliers, and now and then one of zeros."""
    result = {}
    for name, shape in program.inputs.items():
        x = rng.normal(0, 2.0 ** float(rng.integers(-4, 4)), (SAMPLES, *shape))
        x *= np.where(rng.random(x.shape) < 0.02, 16.0, 1.0)
        x[rng.random(SAMPLES) < 0.1] = 0
        result[name] = x.astype(np.float32)
    return result


def verify_case(
    rng: np.random.Generator, config: SystolicConfig, device_for: Callable[[Program], Device], report: VerifyReport
) -> Mismatch | None:
    """One random network on the emulator and on a device: traced, and again as the launches of the schedule."""
    program = random_program(rng, config)
    inputs = random_inputs(rng, program)
    emulator = Emulator(program)
    expected = emulator.run(inputs, trace=True)
    report.cases += 1
    report.layers += len(program.nodes)
    report.values += sum(tensor.mantissa.size for tensor in expected.tensors.values())
    found = _on_new_device(device_for, program, lambda device: device.run(inputs, trace=True))
    mismatch = compare_traces(program, expected, found)
    if mismatch is None:
        mismatch = compare_runs(expected, _on_new_device(device_for, program, lambda device: device.run(inputs)))
    return mismatch


def _on_new_device(
    device_for: Callable[[Program], Device], program: Program, run: Callable[[Device], DeviceResult]
) -> DeviceResult:
    device = device_for(program)
    try:
        return run(device)
    finally:
        device.close()


def simulation(integers: Integers) -> Callable[[Program], Device]:
    """Opens programs on a C simulation of their array."""

    def open_program(program: Program) -> Device:
        kernel = CSimulation(program.config, integers, program.accelerator, program.digest)
        return KernelDevice(program, kernel, "csim" if integers == "native" else "csim:ap_int")

    return open_program


def verify(
    configs: Sequence[SystolicConfig],
    targets: Sequence[str],
    cases: int,
    seed: int = 0,
    progress: Callable[[VerifyReport], None] | None = None,
) -> VerifyReport:
    """``cases`` random networks spread over the arrays, each on the emulator and on every target.

    A case is repeated by its array and its seed ``(seed, number)``. ConfigurationError for an unknown target.
    """
    unknown = [target for target in targets if target not in TARGETS]
    if unknown:
        raise ConfigurationError(f"no device {unknown[0]!r} to verify against; there are {', '.join(TARGETS)}")
    report = VerifyReport(targets=list(targets))
    start = perf_counter()
    for number, config in _built(configs, targets):
        report.accelerators = number + 1
        for case in range(number, cases, len(configs)):
            for target in targets:
                rng = np.random.default_rng([seed, case])
                found = verify_case(rng, config, simulation(TARGETS[target]), report)
                report.seconds = perf_counter() - start
                if found:
                    report.seed, report.target, report.mismatch = (seed, case), target, found
                    return report
            if progress:
                progress(report)
    return report


def _built(configs: Sequence[SystolicConfig], targets: Sequence[str]) -> Iterator[tuple[int, SystolicConfig]]:
    """The arrays one after the other; while one is verified, the compiler builds the next."""
    with ThreadPoolExecutor(1) as pool:

        def start(number: int) -> list[Any]:
            if number >= len(configs):
                return []
            return [pool.submit(build, configs[number], TARGETS[target], "random", "0" * 64) for target in targets]

        waiting = start(0)
        for number, config in enumerate(configs):
            for future in waiting:
                future.result()
            waiting = start(number + 1)
            yield number, config


def random_configs(count: int, seed: int = 0) -> list[SystolicConfig]:
    """``count`` random arrays, reproducible from the seed."""
    return [random_config(np.random.default_rng([seed, 1 << 20, number])) for number in range(count)]
