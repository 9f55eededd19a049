"""Open a network on two groups of kernels: one finds the exponents, the other follows with all data (FP 3.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bfpga.contract.program import Program
from bfpga.devices.layer_kernels import EmulatedLayers, KernelLayers, LayerMachine
from bfpga.devices.position_pair import PositionPair
from bfpga.devices.streamed_pair import EmulatedCore, KernelCore, StreamedPair, StreamingCore
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.positions.closure import batch_sample
from bfpga.engines.positions.sampling import Sampling
from bfpga.errors import ConfigurationError
from bfpga.runtime import SIMULATIONS, open_device, simulated_device

if TYPE_CHECKING:
    from bfpga.accelerator.loader import Accelerator
    from bfpga.compiler.options import CompileOptions
    from bfpga.compiler.read.network import Network


@dataclass(frozen=True)
class PairSide:
    """Kernels of one side: equal ones of an accelerator (its name, its YAML file, or loaded), on a device each."""

    accelerator: str | Path | Accelerator
    kernels: int = 1
    device: str = "emulator"


def open_pair(
    model: str | Path,
    preceding: PairSide,
    main: PairSide,
    batch: int,
    sampling: Sampling | None = None,
    *,
    rule: str = "rate",
    rate: int = 12,
    margin: int = 0,
    depth: int = 2,
    once: bool = False,
    moves_wide: bool = False,
) -> PositionPair:
    """A network of fully connected layers on both sides, compiled and loaded. FP R37-R40, R46.

    batch: items that share an exponent a layer, split over the main kernels. sampling: those of the preceding side,
    along B; one of eight if None. rule, rate, margin: how it selects; several preceding kernels need the rule `lead`.
    depth: layers that it may be ahead. once: the main side leaves the sampled items to the other one. moves_wide: it
    converts the accumulators that the other one has of them (embodiments 8 and 9), which needs `wide_memory` on both
    sides. ModelError for another network, ConfigurationError for numbers that do not fit, DeviceError for a device that
    cannot be opened.
    """
    from bfpga.compiler.options import CompileOptions
    from bfpga.compiler.read.network import read_network
    from bfpga.compiler.schedule.given_exponents import (
        with_given_accumulators,
        with_given_exponents,
        with_kept_accumulators,
    )

    sampling = sampling or Sampling.along("B")
    sampled = len(batch_sample(sampling, batch))
    shares = [
        _share("main", batch - sampled if once else batch, main.kernels),
        _share("preceding", sampled, preceding.kernels),
    ]
    # Both sides get the same mantissas of the input, whichever of them has room for what rounding takes.
    plain = CompileOptions(policy="max", remainders="never")
    finding = replace(plain, policy="dynamic", flow="auto", sample=1, rule=rule, rate=rate, margin=margin)  # type: ignore[arg-type]
    network = read_network(model)
    following = _compiled(network, main, shares[0], plain)
    found = _compiled(network, preceding, shares[1], finding)
    if moves_wide:
        following = with_given_accumulators(following, _share("main", sampled, main.kernels))
        found = with_kept_accumulators(found)
    else:
        following = with_given_exponents(following)
    machines: list[LayerMachine] = []
    try:
        for program, side in ((found, preceding), (following, main)):
            machines += [open_layers(program, side.device) for _ in range(side.kernels)]
        return PositionPair(machines[: preceding.kernels], machines[preceding.kernels :], sampling, depth, once)
    except BaseException:
        for machine in machines:
            machine.close()
        raise


def open_streamed_pair(
    model: str | Path | Network,
    accelerator: str | Path | Accelerator,
    batch: int,
    sampling: Sampling | None = None,
    *,
    device: str = "virtual",
    rule: str = "rate",
    rate: int = 12,
    margin: int = 0,
    once: bool = True,
) -> StreamedPair:
    """A network on the cores of one overlay, which run at the same time: exponents go from core to core. FP R37-R42.

    accelerator: its name, its YAML file, or loaded; with `positions: stream`. batch: items that share an exponent a
    layer. sampling: those of the first core, along B; one of eight if None. One item may be a sample of any network;
    several have to be items of a network of fully connected layers. device: `virtual`, `board`, `remote:HOST`, or
    `emulator` and `csim`, which compute the cores one after the other. once: the other cores leave the sampled items to
    the first one. ModelError for another network, ConfigurationError for what does not fit, DeviceError for a device
    that cannot be opened.
    """
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.compiler.options import CompileOptions
    from bfpga.compiler.read.network import read_network
    from bfpga.compiler.schedule.given_exponents import with_streamed_exponents

    described, sampling = load_accelerator(accelerator), sampling or Sampling.along("B")
    sampled, cores = len(batch_sample(sampling, batch)), described.cores
    rest = batch - sampled if once else batch
    share = _share("main", rest, cores - 1) if cores > 1 else rest
    # Items that precede are one sample, whose exponents are common; the others' are given, one by one or together.
    together = [1] * cores if sampled == 1 else [sampled, *[share] * (cores - 1)]
    options = CompileOptions(
        policy="dynamic", flow="two_pass", sample=1, rule=rule, rate=rate, margin=margin, remainders="never"  # type: ignore[arg-type]
    )  # fmt: skip
    side = PairSide(described)
    network = read_network(model)
    compiled = {count: _compiled(network, side, count, options) for count in dict.fromkeys(together)}
    programs = [
        with_streamed_exponents(compiled[count], awaits=index > 0, hands_on=0 < index < cores - 1)
        for index, count in enumerate(together)
    ]
    opened = open_cores(programs, described, device)
    try:
        return StreamedPair(opened, batch, sampling, once, together)
    except BaseException:
        for core in opened:
            core.close()
        raise


def open_cores(programs: Sequence[Program], accelerator: Accelerator, device: str) -> list[StreamingCore]:
    """Each program on a core of its own: of one overlay, or emulated or simulated one by one; errors of
    ``open_device``."""
    if device == "emulator":
        return [EmulatedCore(program) for program in programs]
    if device in SIMULATIONS:
        return [KernelCore(simulated_device(device, program)) for program in programs]
    from bfpga.board.load import open_program_cores
    from bfpga.board.overlays import provide_overlay

    if device == "virtual":
        provide_overlay(programs[0], accelerator)
    return [KernelCore(each) for each in open_program_cores(programs, device)]


def open_layers(program: Program, device: str) -> LayerMachine:
    """A program on a device of ``bfpga.runtime.DEVICES`` whose layers are started one by one; errors of
    ``open_device``."""
    if device == "emulator":
        return EmulatedLayers(program)
    opened = open_device(device, program)
    assert isinstance(opened, StreamingDevice)
    return KernelLayers(program, opened.kernel)


def _share(side: str, items: int, kernels: int) -> int:
    if not 1 <= kernels <= items or items % kernels:
        raise ConfigurationError(
            f"{items} items cannot be split evenly over {kernels} kernels of the {side} side; choose a number of "
            "kernels that divides them, or another batch or sample"
        )
    return items // kernels


def _compiled(network: Network, side: PairSide, items: int, options: CompileOptions) -> Program:
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.compiler.compiler import compile_network

    return compile_network(network, load_accelerator(side.accelerator), None, options, items=items)
