"""Programs whose exponents come from a preceding operation, run on emulator, plain integers and a compiled kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from array_layers import PlainKernel, gemm, image

from bfpga.contract.configuration import KernelConfig
from bfpga.contract.descriptor import Descriptor, Flag, LeadRule, Operation, Policy
from bfpga.contract.functions import FUNCTION_NAMES
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep, PolicySpec, Program, TensorSpec, Window
from bfpga.devices.base import DeviceResult
from bfpga.devices.comparison import first_mismatch
from bfpga.devices.csim import CSimulation, Integers
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.devices.native.library import NUMPY
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.output.collector import PositionHistogram
from bfpga.errors import ModelError
from bfpga.formats.block_format import BlockFormat
from bfpga.verify.random_flows import random_flow, random_rule
from bfpga.verify.random_network import NetworkBuilder, schedule

#: The format of the specification's examples: 8 of 32 bits, full range; every position has a bin of its own, and all
#: functions are built.
POSITIONS = KernelConfig(
    BlockFormat(mantissa_bits=8, saturation="full"), columns=3, rows=4, lanes=2, multiplier="dsp",
    accumulator_bits=32, bias_bits=32, activation_words=1024, weight_words=512, parameter_rows=256,
    position_bins=32, wide_words=512, functions=FUNCTION_NAMES,
)  # fmt: skip
FLOWS = ("two_pass", "two_pass_sampled", "keep", "keep_sampled")


def dynamic(flow: str = "two_pass", period: int = 1, offset: int = 0, **fields: Any) -> PolicySpec:
    """Found by the data of the same pass; bins begin at the accumulators' unit."""
    rule = LeadRule[fields.pop("rule", "rate").upper()]
    return PolicySpec(
        Policy.MAX, rule=rule, flow=flow, sample_period=period, sample_offset=offset, **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def scheduled(config: KernelConfig, tensors: Sequence[TensorSpec], nodes: Sequence[ArrayNode]) -> Program:
    """A program as the compiler schedules it; the first tensor enters, tensors that nobody reads leave."""
    named = [replace(spec, name="t0") if number == 0 else spec for number, spec in enumerate(tensors)]
    builder = NetworkBuilder(np.random.default_rng(0), config, {spec.name: spec for spec in named}, list(nodes))
    return schedule(builder, nodes[-1].output)


def convolution(
    policy: PolicySpec, source: str = "t0", output: str = "y", inputs: int = 5, channels: int = 9,
    size: tuple[int, int] = (17, 4), seed: int = 0, **fields: Any,
) -> ArrayNode:  # fmt: skip
    """A 3 x 3 convolution with random weights, biases and row exponents."""
    rng = np.random.default_rng(seed)
    return gemm(
        rng.integers(-127, 128, (channels, 3, 3, inputs)), Window(3, 3, 1, 1, 1, 1, 1, 1, *size),
        **{
            "name": output, "inputs": (source,), "output": output, "policy": policy, "bias_exponent": -9,
            "weight_exponents": rng.integers(-9, -4, channels).astype(np.int32),
            "bias": rng.integers(-99999, 100000, channels).astype(np.int32), **fields,
        },
    )  # fmt: skip


def one_convolution(policy: PolicySpec, config: KernelConfig = POSITIONS, **fields: Any) -> Program:
    """A program of one such layer on an image of 17 x 4 x 5."""
    size = fields.get("size", (17, 4))
    inputs, channels = fields.get("inputs", 5), fields.get("channels", 9)
    return scheduled(config, [image("t0", *size, inputs), image("y", *size, channels)], [convolution(policy, **fields)])


def samples(program: Program, count: int = 2, seed: int = 1, spread: float = 3.0) -> dict[str, npt.NDArray[np.float32]]:
    """Samples of different scales with outliers."""
    rng = np.random.default_rng(seed)
    (shape,) = program.inputs.values()
    x = rng.normal(size=(count, *shape)) * np.exp2(rng.uniform(-spread, spread, (count, *[1] * len(shape))))
    return {"t0": (x * np.where(rng.random(x.shape) < 0.02, 16, 1)).astype(np.float32)}


def emulated(program: Program, inputs: dict[str, npt.NDArray[np.float32]]) -> DeviceResult:
    return Emulator(program).run(inputs, trace=True)


def counted(program: Program, inputs: dict[str, npt.NDArray[np.float32]]) -> DeviceResult:
    """The same by the engines in numpy, which have histograms."""
    return Emulator(program, instructions=NUMPY).run(inputs, trace=True)


def on_plain_integers(program: Program, inputs: dict[str, npt.NDArray[np.float32]], trace: bool = True) -> DeviceResult:
    return KernelDevice(program, PlainKernel(program.config), "plain integers").run(inputs, trace=trace)


def compiled_kernel(config: KernelConfig, integers: Integers = "native") -> CSimulation:
    """Built without optimization, once for all sizes of an array's memories: large ones hold what small ones do."""
    least = {"activation_words": 1024, "weight_words": 512, "parameter_rows": 256}
    if config.wide_words:
        least["wide_words"] = 1024
    sizes = {name: max(words, getattr(config, name)) for name, words in least.items()}
    return CSimulation(replace(config, **sizes), integers)


def compiled(
    program: Program, inputs: dict[str, npt.NDArray[np.float32]], trace: bool = True, integers: Integers = "native"
) -> DeviceResult:
    """On the C simulation."""
    device = StreamingDevice(program, compiled_kernel(program.config, integers), "csim")
    try:
        return device.run(inputs, trace=trace)
    finally:
        device.close()


def everywhere(program: Program, inputs: dict[str, npt.NDArray[np.float32]], kernel: bool = True) -> DeviceResult:
    """The emulator's result, after the others were found equal: bits, exponents, counters, histograms, clocks."""
    expected = emulated(program, inputs)
    in_numpy = counted(program, inputs)
    runs = [on_plain_integers(program, inputs)]
    if kernel:
        runs += [compiled(program, inputs, trace) for trace in (True, False)]
    for run in runs:
        found = first_mismatch(program, expected, run) or first_mismatch(program, in_numpy, run)
        assert found is None, str(found)
        assert run.tensors == {} or histograms(run) == histograms(in_numpy)
    return expected


def histograms(result: DeviceResult) -> dict[str, PositionHistogram]:
    """What collectors counted, by layer."""
    return {
        layer.name: layer.counters.histogram
        for layer in result.layers
        if layer.counters is not None and layer.counters.histogram is not None
    }


def operations(program: Program, layer: str = "") -> Iterator[KernelOperation]:
    """Operations of all starts in order, of one layer if named."""
    for step in program.steps:
        assert isinstance(step, LaunchStep)
        yield from (operation for operation in step.operations if layer in ("", operation.layer))


def computing(program: Program, layer: str = "") -> list[Descriptor]:
    """Descriptors of GEMM, MAX and SUM in order."""
    kinds = (Operation.GEMM, Operation.MAX, Operation.SUM)
    found = [operation.descriptor for operation in operations(program, layer)]
    return [descriptor for descriptor in found if descriptor.operation in kinds]


def multiplied(program: Program, layer: str = "") -> int:
    """Output elements that are multiplied for, over all passes of one sample."""
    return sum(d.output_pixels * d.output_rows for d in computing(program, layer) if not d.flags & Flag.KEPT)


def same_bits(first: DeviceResult, second: DeviceResult) -> bool:
    """Every tensor of two runs has the same exponents and mantissas."""
    return all(
        np.array_equal(tensor.exponent, second.tensors[name].exponent)
        and np.array_equal(tensor.mantissa, second.tensors[name].mantissa)
        for name, tensor in first.tensors.items()
    )


class FlowBuilder(NetworkBuilder):
    """Random networks whose exponents nearly all follow from a preceding operation, with bins anywhere."""

    def policy(self) -> PolicySpec:
        draw = self.rng.random()
        if draw < 0.1:
            return super().policy()
        rule = random_rule(self.rng, self.config)
        if draw < 0.25:
            slot = len(self.nodes) % self.config.policy_slots
            return PolicySpec(Policy.ROLLING_MAX, -6, slot, window=1, **rule)
        return replace(PolicySpec(Policy.MAX, **rule), **random_flow(self.rng, self.config))


def random_flows(rng: np.random.Generator, config: KernelConfig) -> Program:
    """A scheduled program of one to three random layers that fits the array and its keep buffer."""
    for _ in range(100):
        builder = FlowBuilder(rng, config)
        last = builder.grow(int(rng.integers(1, 4)))
        try:
            return schedule(builder, last)
        except ModelError:
            continue
    raise AssertionError("no random network fits")
