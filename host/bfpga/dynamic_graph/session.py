"""A device that stays open while a program runs: blocks in, blocks out, and a record of every operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from bfpga.compiler.lower.layers import Layer
from bfpga.compiler.numbers.policies import PolicyChoice
from bfpga.compiler.numbers.weight_formats import check_formats
from bfpga.compiler.options import CompileOptions, FormatChoice, RuleName, position_flow, position_rule
from bfpga.compiler.schedule.measuring import SAMPLED
from bfpga.contract.configuration import KernelConfig
from bfpga.contract.flows import Flow, bears_samples
from bfpga.contract.program import LaunchStep, Program
from bfpga.devices.kernel_device import KernelDevice
from bfpga.dynamic_graph.blocks import ArrayBlock
from bfpga.dynamic_graph.calls import RESULT
from bfpga.dynamic_graph.compiled import CallCompiler
from bfpga.dynamic_graph.machines import EmulatedMachine, KernelMachine, Machine
from bfpga.dynamic_graph.records import OperationRecord, Report
from bfpga.dynamic_graph.requests import Request
from bfpga.engines.positions.sample_schedule import Progress, SampleSchedule, spread
from bfpga.errors import ConfigurationError, DeviceError, ToolError
from bfpga.program.flow_listing import measured_share
from bfpga.runtime import open_device

if TYPE_CHECKING:
    from bfpga.accelerator.loader import Accelerator

#: Fewer values say nothing about one in 4096, which rule ``rate`` lets saturate (FP 2.3).
LEAST_SAMPLE = 4096
#: A layer of which only the policy is asked: whether the accelerator can follow the options.
_PROBE = Layer("eager", "sum", ("operand_0",), RESULT, 1)


class Session:
    """One accelerator on one device, open until ``close``. trace: a record of every operation, in order (FP R49)."""

    def __init__(
        self, accelerator: Accelerator, device: str, options: PositionOptions, formats: FormatChoice = "auto",
        histograms: bool = False,
    ) -> None:  # fmt: skip
        """Open the device. histograms: whether kernels tell theirs.

        DeviceError if it is unknown or cannot be opened; ConfigurationError for wrong options.
        """
        self.accelerator = accelerator
        self.device = device
        self.config = accelerator.config
        self.trace: list[OperationRecord] = []
        self.compiler = options.compiler(self.config, formats)
        self.progress = Progress()
        self._schedule = options.sample if isinstance(options.sample, SampleSchedule) else None
        self._spread: int | None = None
        self._exponent = 0
        self._machine: Machine | None = _open(accelerator, device, histograms)

    def close(self) -> None:
        """Release the device. Closing twice does nothing."""
        if self._machine is not None:
            self._machine.close()
            self._machine = None

    def finish_iteration(self, accuracy: float | None = None) -> None:
        """Count an iteration; operations of the next one measure the share that a schedule gives it. FP R31, R32."""
        self.progress, self._spread = self.progress.after(accuracy, self._spread), None

    def report(self) -> Report:
        """What ran so far."""
        return Report(self.accelerator.name, self.device, self.accelerator.clock_mhz, tuple(self.trace))

    def compute(self, request: Request, operands: Sequence[ArrayBlock], exact: bool = False) -> ArrayBlock:
        """An operation on the device. operands: as the user shapes them; exact: its weights are mantissas already.

        ModelError for an operation too large for the accelerator; DeviceError if the device fails or is closed.
        """
        if self._machine is None:
            raise DeviceError(f"the session on {self.device} is closed: operations belong inside its `with` block")
        begun, scheduled = perf_counter(), self.compiler.scheduled
        period = None if self._schedule is None else self._schedule.period(self.progress)
        compiled = self.compiler.compile(request.call, exact, period)
        outcome = self._machine.run(compiled, request.call.operands)
        result = ArrayBlock(request.shaped(outcome.block.mantissa), outcome.block.exponent)
        share = 0.0 if compiled.node.policy.inherit else measured_share(compiled.node, compiled.node.policy.sample)
        if share and self._schedule is not None and self._schedule.by == "spread":
            self._spread = max(self._spread or 0, spread(result.mantissa))
        self.trace.append(
            OperationRecord(
                request.call.layer.name,
                "device",
                tuple(block.mantissa.shape for block in operands),
                result.mantissa.shape,
                tuple(block.exponent for block in operands),
                first_exponent=self._exponent,
                exponent=result.exponent,
                measured=not compiled.node.policy.inherit,
                share=share,
                saturated=outcome.counters.overflows,
                underflows=outcome.counters.underflows,
                status=outcome.counters.status,
                macs=request.call.layer.macs,
                cycles=outcome.cycles,
                seconds=perf_counter() - begun,
                compiled=self.compiler.scheduled > scheduled,
                histogram=outcome.counters.histogram,
            )
        )
        self._exponent = result.exponent
        return result

    def note_host(
        self,
        name: str,
        operands: Sequence[ArrayBlock],
        shape: tuple[int, ...],
        exponent: int | None,
        seconds: float,
        reason: str,
    ) -> None:
        """Record what numpy computed. exponent: of a result that came back as a block."""
        shapes = tuple(block.mantissa.shape for block in operands)
        exponents = tuple(block.exponent for block in operands)
        self.trace.append(
            OperationRecord(name, "host", shapes, shape, exponents, exponent=exponent, seconds=seconds, reason=reason)
        )


@dataclass(frozen=True)
class PositionOptions:
    """How operations find the exponents of their results (FP 2.3, 3.4, 3.5), see ``network.options.LayerOptions``.

    rule: None is ``rate``, and ``lead`` on an accelerator without ``position_bins``. flow: None is
    ``two_pass_sampled`` for rule ``rate`` where the sample has ``LEAST_SAMPLE`` values, else ``two_pass``: a sample may
    miss the largest value, and only a rule that lets a few values saturate in any case can live with that. sample: the
    distance of measured rows, or a schedule by which it changes from iteration to iteration.
    """

    rule: RuleName | None = None
    flow: Flow | None = None
    sample: int | SampleSchedule = 8
    rate: int = 12
    margin: int = 0

    def compiler(self, config: KernelConfig, formats: FormatChoice) -> CallCompiler:
        """A compiler of operations with these options; ConfigurationError if the accelerator cannot follow them."""
        if config.static_exponents:
            raise ConfigurationError(
                "operations that run as a program defines them find their exponents at run time, and those of this "
                "accelerator are static (key static_exponents): choose another one, or compile a network for it"
            )
        rule = position_rule(self.rule, config)
        flow, sample = position_flow(self.flow, rule), self.sample
        if isinstance(sample, SampleSchedule):
            _check_samples(flow, rule)
            sample = max(sample.periods)
        options = CompileOptions(
            policy="dynamic", rule=rule, flow=flow, sample=sample, rate=self.rate, margin=self.margin,
            formats=formats,
        )  # fmt: skip
        check_formats(config, options)
        PolicyChoice(config, options, {}, [_PROBE]).of(_PROBE)
        return CallCompiler(config, options, 0 if self.flow else LEAST_SAMPLE)


def _check_samples(flow: Flow, rule: RuleName) -> None:
    """ConfigurationError where a schedule of samples would change nothing."""
    if flow not in SAMPLED and not (flow == "auto" and bears_samples(rule)):
        raise ConfigurationError(
            f"sample: flow {flow} with rule {rule} measures everything, so a schedule of samples changes nothing; "
            f"choose flow {' or '.join(SAMPLED)}"
        )


def _open(accelerator: Accelerator, device: str, histograms: bool) -> Machine:
    """The device with a program that does nothing; operations are given to its kernel."""
    if device == "emulator":
        return EmulatedMachine(accelerator.config)
    nothing = Program(
        "eager", accelerator.name, accelerator.digest, accelerator.config, accelerator.clock_mhz, {}, [],
        LaunchStep([]), [], {}, {},
    )  # fmt: skip
    if device.startswith(("virtual", "board", "remote:")):
        from bfpga.board.overlays import provide_overlay

        provide_overlay(nothing, accelerator)
    opened = open_device(device, nothing)
    assert isinstance(opened, KernelDevice)
    return KernelMachine(accelerator.config, opened.kernel, histograms)


def accelerator_of(accelerator: str | Path | Accelerator) -> Accelerator:
    """An accelerator by its name or YAML file, or as it was loaded.

    ToolError on a machine without the compiler's packages, such as a board.
    """
    if not isinstance(accelerator, (str, Path)):
        return accelerator
    try:
        from bfpga.accelerator.loader import load_accelerator
    except ModuleNotFoundError as error:
        raise ToolError(
            f"operations cannot be compiled on this machine ({error}): run the program on a PC, with device "
            "remote:HOST for the board"
        ) from None
    return load_accelerator(accelerator)
