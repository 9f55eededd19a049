"""Open a network on two groups of kernels: one finds the exponents, the other follows with all data (FP 3.7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bfpga.contract.program import Program
from bfpga.devices.layer_kernels import EmulatedLayers, KernelLayers, LayerMachine
from bfpga.devices.position_pair import PositionPair
from bfpga.devices.streaming_device import StreamingDevice
from bfpga.engines.positions.closure import batch_sample
from bfpga.engines.positions.sampling import Sampling
from bfpga.errors import ConfigurationError
from bfpga.runtime import open_device

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
