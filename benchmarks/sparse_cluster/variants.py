"""The sparse cluster of `zcu104_cluster` with units of every variant and in both forms: does its hardware hold?

    [BFPGA_MODELS=FOLDER] python -m benchmarks.sparse_cluster.variants [--markdown FILE]

Each is synthesized as `bfpga synthesize --check` does it, half a minute on two cores; ends with status 1 where a loop
is slower than it states, a path misses the clock, or more of a resource is taken than can be routed. Beside that the
estimated clocks of a sample of ResNet-8, whose zeros are counted on its calibration samples; of LeNet where there is no
FOLDER.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.common.command import EXAMPLES, command, models_folder
from benchmarks.common.networks import NETWORKS, Array, network_samples
from benchmarks.common.report import finish, table
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.contract.configuration import ClusterForm, ClusterVariant
from bfpga.devices.csim import cache_directory
from bfpga.devices.emulator import Emulator
from bfpga.estimate.hardware import findings
from bfpga.synthesis.driver import synthesize

ACCELERATOR = "zcu104_cluster"


@dataclass(frozen=True)
class Case:
    """Units of a variant. lanes: of B, C and D; blocks: that a unit's map may have (key ``map_blocks``)."""

    variant: ClusterVariant
    form: ClusterForm = "overlap_add"
    lanes: int = 4
    blocks: int = 512

    @property
    def name(self) -> str:
        lanes = f", {self.lanes} lanes" if self.variant in ("B", "C", "D") else ""
        return f"{self.variant}{lanes}{', halo' if self.form == 'halo' else ''}"

    def accelerator(self) -> Accelerator:
        """The ready accelerator with such units."""
        ready = load_accelerator(ACCELERATOR)
        config = replace(
            ready.systolic, cluster_variant=self.variant, cluster_form=self.form, cluster_products=self.lanes,
            cluster_blocks=self.blocks,
        )  # fmt: skip
        return replace(ready, name=f"{ready.name} {self.name}", systolic=config)


#: Of variant B the steps lie in block memory, which leaves less for sums.
CASES = (
    Case("E"),
    Case("E", "halo"),
    Case("A"),
    Case("B", blocks=256),
    Case("B", lanes=9, blocks=256),
    Case("C"),
    Case("C", lanes=8),
    Case("D"),
    Case("D", lanes=8),
)


def network_and_samples() -> tuple[Path, Array | None]:
    """ResNet-8 with samples, or the shipped LeNet without."""
    folder = models_folder()
    if folder is None:
        return EXAMPLES / "lenet_mnist.onnx", None
    network = next(network for network in NETWORKS if network.name == "resnet8_cifar10")
    model = folder / "models" / f"{network.name}.onnx"
    return model, network_samples(network, folder, model)[1]


def row(case: Case, model: Path, samples: Array | None) -> tuple[list[str], list[str]]:
    """A line of the table, and what keeps the accelerator from its board."""
    accelerator = case.accelerator()
    resources = accelerator.board.resources
    figures = synthesize(accelerator, cache=cache_directory() / "synthesis" / "netlists")
    clocks = Emulator(compile_network(model, accelerator, samples)).cycles.schedule
    slack = min(loop.slack for loop in figures.loops if loop.is_pipelined)
    intervals = max(loop.interval for loop in figures.loops if loop.is_pipelined)
    shares = [f"{100 * figures.total.used[kind] / resources[kind]:.0f} %" for kind in ("lut", "ff", "dsp", "bram36")]
    found = [f"{case.name}: {finding}" for finding in findings(figures, resources)]
    products = accelerator.systolic.cluster_units * accelerator.systolic.unit_products
    return [case.name, str(products), str(intervals), f"{slack:.2f}", *shares, f"{clocks:,}"], found


def main(given: Sequence[str] | None = None) -> int:
    arguments = command(__doc__, "--markdown").parse_args(given)
    model, samples = network_and_samples()
    both = [row(case, model, samples) for case in CASES]
    head = ["units", "products a clock", "interval", "slack, ns", "LUT", "FF", "DSP", "BRAM", f"clocks, {model.stem}"]
    missed = [finding for _, found in both for finding in found]
    return finish(table(head, [cells for cells, _ in both]) + "\n", arguments.markdown, missed)


if __name__ == "__main__":
    sys.exit(main())
