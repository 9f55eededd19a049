"""A device that stays open while a program runs: operations are compiled once, run one by one and recorded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from bfpga.dynamic_graph.array import EagerArray
from bfpga.dynamic_graph.blocks import ArrayBlock, IntArray, encode_block
from bfpga.dynamic_graph.calls import RESULT, ArrayCall
from bfpga.dynamic_graph.compiled import CompiledCall, compile_call
from bfpga.dynamic_graph.machines import EmulatedMachine, KernelMachine, Machine, Outcome
from bfpga.dynamic_graph.records import OperationRecord, Report
from bfpga.dynamic_graph.requests import Request
from bfpga.engines.flows import Flow
from bfpga.errors import DataError, DeviceError
from bfpga.network.layers import Layer
from bfpga.network.options import CompileOptions, FormatChoice, RuleName
from bfpga.network.policies import PolicyChoice
from bfpga.network.program import LaunchStep, Program
from bfpga.runtime import open_device

if TYPE_CHECKING:
    from bfpga.accelerator.loader import Accelerator

#: Compiled operations that are kept: those of a training step of a large network, with their packed weights.
KEPT_CALLS = 512
Operand = EagerArray | npt.ArrayLike


class Session:
    """One accelerator on one device, open until ``close``; a context manager.

    trace: a record of every operation, in order (FP R49).
    """

    def __init__(self, accelerator: Accelerator, device: str, options: CompileOptions) -> None:
        """Open the device. DeviceError if it is unknown or cannot be opened; ConfigurationError for wrong options."""
        self.accelerator = accelerator
        self.device = device
        self.config = accelerator.systolic
        self.options = options
        self.trace: list[OperationRecord] = []
        self._compiled: OrderedDict[tuple[Any, ...], CompiledCall] = OrderedDict()
        self._exponent = 0
        PolicyChoice(self.config, options, {}, [_PROBE]).of(_PROBE)
        self._machine: Machine | None = _open(accelerator, device)

    def close(self) -> None:
        """Release the device; arrays keep their values."""
        if self._machine is not None:
            self._machine.close()
            self._machine = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def report(self) -> Report:
        """What ran so far."""
        return Report(self.accelerator.name, self.device, self.accelerator.clock_mhz, tuple(self.trace))

    # Arrays

    def array(self, values: Operand) -> EagerArray:
        """Numbers of any shape as one block; an array of this session as it is.

        DataError for what is empty, not finite, no number, or an array of another session.
        """
        if isinstance(values, EagerArray):
            if values.run is not self:
                raise DataError("the array belongs to another session; read it with numpy.asarray first")
            return values
        return self.wrap(encode_block(values, self.config.format, "the array"))

    def wrap(self, block: ArrayBlock) -> EagerArray:
        """A block as an array of this session."""
        return EagerArray(self, block)

    def rearranged(self, x: EagerArray, rearrange: Callable[[IntArray], IntArray]) -> EagerArray:
        """The array with its mantissas at other places; nothing is computed, and the exponent stays."""
        return self.wrap(ArrayBlock(rearrange(x.mantissa), x.exponent))

    # Operations

    def execute(self, request: Request, operands: Sequence[EagerArray], exact: bool = False) -> EagerArray:
        """Compute a request on the device. exact: its weights are mantissas already and must not be rounded again.

        ModelError for an operation too large for the accelerator; DeviceError if the device fails or is closed.
        """
        begun = perf_counter()
        compiled, known = self._call(request.call, exact)
        outcome = self._open_machine().run(compiled, request.call.operands)
        result = ArrayBlock(request.shaped(outcome.block.mantissa), outcome.block.exponent)
        self._record(request, compiled, outcome, operands, result, known, perf_counter() - begun)
        return self.wrap(result)

    def _record(
        self,
        request: Request,
        compiled: CompiledCall,
        outcome: Outcome,
        operands: Sequence[EagerArray],
        result: ArrayBlock,
        known: bool,
        seconds: float,
    ) -> None:
        self.trace.append(
            OperationRecord(
                request.call.layer.name,
                "device",
                tuple(operand.shape for operand in operands),
                result.mantissa.shape,
                tuple(operand.exponent for operand in operands),
                self._exponent,
                result.exponent,
                not compiled.node.policy.inherit,
                outcome.counters.overflows,
                outcome.counters.underflows,
                outcome.counters.status,
                request.call.layer.macs,
                outcome.cycles,
                seconds,
                not known,
            )
        )
        self._exponent = result.exponent

    def on_host(self, name: str, compute: Callable[[], Any], operands: Sequence[EagerArray], reason: str) -> Any:
        """What numpy computes from the values of arrays; arrays of floats among the results come back as blocks."""
        begun = perf_counter()
        with np.errstate(all="ignore"):  # what is not finite is refused below
            result = compute()
        encoded = self._from_host(result, name)
        first = encoded[0] if isinstance(encoded, (tuple, list)) and encoded else encoded
        self.trace.append(
            OperationRecord(
                name,
                "host",
                tuple(operand.shape for operand in operands),
                np.shape(first) if not isinstance(first, EagerArray) else first.shape,
                tuple(operand.exponent for operand in operands),
                self._exponent,
                first.exponent if isinstance(first, EagerArray) else None,
                seconds=perf_counter() - begun,
                reason=reason,
            )
        )
        return encoded

    def _from_host(self, result: Any, name: str) -> Any:
        if isinstance(result, (tuple, list)):
            return type(result)(self._from_host(item, name) for item in result)
        if isinstance(result, np.ndarray) and result.ndim and np.issubdtype(result.dtype, np.floating) and result.size:
            return self.wrap(encode_block(result, self.config.format, f"the result of {name}"))
        return result

    def _call(self, call: ArrayCall, exact: bool) -> tuple[CompiledCall, bool]:
        """The compiled operation, and whether it was known."""
        key = (*call.key, exact)
        known = key in self._compiled
        if not known:
            options = replace(self.options, formats="linear") if exact else self.options
            self._compiled[key] = compile_call(call, self.config, options)
            while len(self._compiled) > KEPT_CALLS:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(key)
        return self._compiled[key], known

    def _open_machine(self) -> Machine:
        if self._machine is None:
            raise DeviceError(f"the session on {self.device} is closed: operations belong inside its `with` block")
        return self._machine


#: A layer of which only the policy is asked: whether the accelerator can follow the options.
_PROBE = Layer("eager", "sum", ("operand_0",), RESULT, 1)


def session_options(
    accelerator: Accelerator,
    rule: RuleName | None,
    flow: Flow | None,
    sample: int,
    rate: int,
    margin: int,
    formats: FormatChoice,
) -> CompileOptions:
    """Options of policy ``dynamic``. Without a collector the rule is ``lead``, and everything is measured.

    A sample may miss the largest value; rule ``rate`` lets a few values saturate in any case (FP 2.3).
    """
    collects = accelerator.systolic.position_bins > 0
    chosen = rule or ("rate" if collects else "lead")
    measured = flow or ("two_pass_sampled" if chosen == "rate" else "two_pass")
    return CompileOptions(
        policy="dynamic", rule=chosen, flow=measured, sample=sample, rate=rate, margin=margin, formats=formats
    )


def _open(accelerator: Accelerator, device: str) -> Machine:
    if device == "emulator":
        return EmulatedMachine(accelerator.systolic)
    nothing = Program(
        "eager", accelerator.name, accelerator.digest, accelerator.systolic, accelerator.clock_mhz, {}, [],
        LaunchStep([]), [], {}, {},
    )  # fmt: skip
    if device.startswith(("virtual", "board", "remote:")):
        from bfpga.devices.overlays import provide_overlay

        provide_overlay(nothing, accelerator)
    opened = open_device(device, nothing)
    return KernelMachine(accelerator.systolic, opened.kernel)  # type: ignore[attr-defined]


def accelerator_of(accelerator: str | Path | Accelerator) -> Accelerator:
    """An accelerator by its name or YAML file, or as it was loaded."""
    from bfpga.accelerator.loader import load_accelerator

    return load_accelerator(accelerator) if isinstance(accelerator, (str, Path)) else accelerator
