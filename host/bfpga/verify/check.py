"""One random case on two devices, compared bit by bit; and many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.program import Program
from bfpga.devices.base import Device, DeviceResult
from bfpga.devices.comparison import Mismatch, first_mismatch
from bfpga.devices.csim import CSimulation, Integers, build
from bfpga.devices.emulator import Emulator
from bfpga.devices.native.library import NUMPY, available_sets
from bfpga.devices.rtl import RTL, RtlSimulation, accelerator_of, is_rtl, named_seed
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.errors import ConfigurationError, DeviceError
from bfpga.verify.orders import order_of
from bfpga.verify.random_accelerator import random_config
from bfpga.verify.random_network import random_program
from bfpga.verify.random_zeros import with_zeros
from bfpga.verify.stalled import STALLED, Staller, is_stalled, named_stalls
from bfpga.verify.virtual_boards import VIRTUAL, VirtualBoards, is_virtual, named_cores

#: Devices a case can be verified against -> the integers of the simulated kernel, which the virtual board has too.
TARGETS: dict[str, Integers] = {
    "csim": "native",
    "csim:ap_int": "ap_int",
    "csim:exact": "exact",
    STALLED: "native",
    VIRTUAL: "native",
}
#: The compiled layers of the emulator: a target for each instruction set that this machine has.
NATIVE = "native"
#: Opens a program on a device.
OpenProgram = Callable[[Program], Device]
#: Samples of one case: more than one, because policies learn from sample to sample.
SAMPLES = 2
#: Every so many cases run layer by layer, all tensors compared; the others as the launches of their schedule, where
#: only what leaves the chip is seen. A difference there is looked for again layer by layer.
TRACED = 3


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


def random_inputs(
    rng: np.random.Generator, program: Program, samples: int = SAMPLES
) -> dict[str, npt.NDArray[np.float32]]:
    """Samples with outliers, and now and then one of zeros; half of them with zeros for arrays that skip these."""
    result = {}
    for name, shape in program.inputs.items():
        x = rng.normal(0, 2.0 ** float(rng.integers(-4, 4)), (samples, *shape))
        x *= np.where(rng.random(x.shape) < 0.02, 16.0, 1.0)
        x[rng.random(samples) < 0.1] = 0
        result[name] = (with_zeros(rng, x) if rng.random() < 0.5 else x).astype(np.float32)
    return result


def verify_case(
    rng: np.random.Generator,
    config: KernelConfig,
    device_for: OpenProgram,
    report: VerifyReport,
    traced: bool,
    samples: int = SAMPLES,
) -> Mismatch | None:
    """One random network on the engines in numpy and on a device; None if every bit, counter and clock agrees."""
    program = random_program(rng, config)
    inputs = random_inputs(rng, program, samples)
    expected = Emulator(program, NUMPY).run(inputs, trace=True)
    report.cases += 1
    report.layers += len(program.nodes)
    report.values += sum(tensor.mantissa.size for tensor in expected.tensors.values())
    try:
        found = first_mismatch(program, expected, _on_new_device(device_for, program, inputs, traced))
        if found and not traced:
            located = first_mismatch(program, expected, _on_new_device(device_for, program, inputs, True))
            return located or found
    except DeviceError as error:
        return _stopped(error)
    return found


def _on_new_device(
    device_for: OpenProgram,
    program: Program,
    inputs: Mapping[str, npt.NDArray[np.float32]],
    traced: bool,
) -> DeviceResult:
    device = device_for(program)
    try:
        return device.run(inputs, trace=traced)
    finally:
        device.close()


def _stopped(error: DeviceError) -> Mismatch:
    """A device that refuses what the emulator computes is a difference too."""
    return Mismatch("stop", "", "", (), "a result", str(error))


def simulation(target: str) -> OpenProgram:
    """Opens programs on a C simulation of their array, or on the emulator with one instruction set.

    The processes of a kernel run in an order drawn by chance in half of the programs, and their streams pause; those of
    `csim:stalled` have stages in their pipelines, and pause in all programs. None of it may change a bit.
    """
    if target.startswith(NATIVE):
        return lambda program: Emulator(program, target.removeprefix(f"{NATIVE}:"), probe=False)
    if is_rtl(target):
        return lambda program: StreamingDevice(
            program, RtlSimulation(accelerator_of(program), named_seed(target) or order_of(program)), target
        )
    integers = integers_of(target)
    staller = Staller(target) if is_stalled(target) else None

    def open_program(program: Program) -> Device:
        kernel = CSimulation(program.config, integers, program.accelerator, program.digest)
        kernel.disturb(order_of(program))
        if staller is not None:
            staller.stall(kernel, program)
        return StreamingDevice(program, kernel, target)

    return open_program


def verify(
    configs: Sequence[KernelConfig],
    targets: Sequence[str],
    cases: int,
    seed: int = 0,
    progress: Callable[[VerifyReport], None] | None = None,
    device_for: Callable[[str], OpenProgram] | None = None,
) -> VerifyReport:
    """``cases`` random networks spread over the arrays, each on the emulator and on every target.

    device_for: opens programs on a target, if not `simulation` or a virtual board. A case is repeated by its array and
    its seed ``(seed, number)``. ConfigurationError for an unknown target; DeviceError if a target has no way to run.
    """
    targets = target_names(targets)
    report = VerifyReport(targets=list(targets))
    start = perf_counter()
    with ExitStack() as opened:
        openers = {target: device_for(target) if device_for else opener(target, opened) for target in targets}
        for number, config in _built(configs, targets):
            report.accelerators = number + 1
            for case in range(number, cases, len(configs)):
                verify_on_all(config, openers, seed, case, case // len(configs) % TRACED == 0, report)
                report.seconds = perf_counter() - start
                if report.mismatch is not None:
                    return report
                if progress:
                    progress(report)
    return report


def verify_on_all(
    config: KernelConfig, openers: Mapping[str, OpenProgram], seed: int, case: int, traced: bool, report: VerifyReport
) -> None:
    """One random network on every target until one differs; what is found goes into the report."""
    for target, open_program in openers.items():
        samples = SAMPLES * (named_cores(target) if is_virtual(target) else 1)  # some for each core
        found = verify_case(np.random.default_rng([seed, case]), config, open_program, report, traced, samples)
        if found:
            report.seed, report.target, report.mismatch = (seed, case), target, found
            return


def target_names(targets: Sequence[str]) -> list[str]:
    """Every target by its own name; ConfigurationError for one that there is not."""
    for target in targets:
        if is_stalled(target):
            named_stalls(target)
        if is_rtl(target):
            named_seed(target)
        if is_virtual(target):
            named_cores(target)
    unknown = [
        target for target in targets
        if target not in (*TARGETS, NATIVE) and not (is_stalled(target) or is_rtl(target) or is_virtual(target))
    ]  # fmt: skip
    if unknown:
        known = ", ".join((*TARGETS, RTL, NATIVE))
        raise ConfigurationError(f"no device {unknown[0]!r} to verify against; there are {known}")
    return [name for target in targets for name in _instruction_sets(target)]


def integers_of(target: str) -> Integers:
    """Those of the simulated kernel of a target."""
    return TARGETS[STALLED if is_stalled(target) else VIRTUAL if is_virtual(target) else target]


def _instruction_sets(target: str) -> list[str]:
    """A target; the compiled layers as one for each set of this machine."""
    return [f"{NATIVE}:{item.name}" for item in available_sets()] if target == NATIVE else [target]


def opener(target: str, opened: ExitStack) -> OpenProgram:
    """Opens programs on a target; boards are released with ``opened``."""
    if not is_virtual(target):
        return simulation(target)
    boards = VirtualBoards(named_cores(target))
    opened.callback(boards.close)
    return boards.open


def is_compiled_otherwise(target: str) -> bool:
    """Whether a target needs no compiled C++ of the kernel."""
    return target.startswith(NATIVE) or is_rtl(target)


def _built(configs: Sequence[KernelConfig], targets: Sequence[str]) -> Iterator[tuple[int, KernelConfig]]:
    """The arrays one after the other; while one is verified, the compiler builds the next."""
    with ThreadPoolExecutor(1) as pool:

        def start(number: int) -> list[Any]:
            if number >= len(configs):
                return []
            kernels = {integers_of(target) for target in targets if not is_compiled_otherwise(target)}
            return [pool.submit(build, configs[number], integers, "random", "0" * 64) for integers in sorted(kernels)]

        waiting = start(0)
        for number, config in enumerate(configs):
            for future in waiting:
                future.result()
            waiting = start(number + 1)
            yield number, config


def random_configs(count: int, seed: int = 0) -> list[KernelConfig]:
    """``count`` random arrays, reproducible from the seed."""
    return [random_config(np.random.default_rng([seed, 1 << 20, number])) for number in range(count)]
