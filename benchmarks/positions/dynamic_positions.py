"""What positions from the data of the same pass are good for on real networks: accuracy without calibration, inputs
that change, clocks, overlapped runs. One command:

    BFPGA_MODELS=FOLDER python -m benchmarks.positions.dynamic_positions [--part PART ...] [--samples N]
        [--markdown FILE]

FOLDER has models/ and data/; networks it does not have are left out. Dynamic recipes are compiled without any sample;
`static` is calibrated, with channel shifts and corrected biases. Few samples make coarse steps, so every recipe is also
compared with the static one sample by sample (+ right alone, - wrong alone), and with the classes of the float network.
Ends with 1 if a goal is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.common.command import command, required_models_folder
from benchmarks.common.networks import Network, float_run, network_named, network_samples
from benchmarks.common.report import status, table, write_file
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.compiler.options import CompileOptions
from bfpga.contract.descriptor import Flag, Operation
from bfpga.contract.program import Program
from bfpga.engines.kernel.cycles import drain_cycles
from bfpga.engines.positions.pipeline import StageTimes
from bfpga.program.cycles import operation_clocks, program_cycles, step_operations
from bfpga.runtime import compile as compile_model
from bfpga.runtime import run

Floats = npt.NDArray[np.float32]
NAMES = ("lenet_mnist", "resnet8_cifar10", "dscnn_kws")
#: Columns: recipes by name. Only `static` gets calibration samples.
RECIPES = {
    "static": CompileOptions(),
    "two_pass": CompileOptions(policy="dynamic", flow="two_pass"),
    "two_pass_sampled": CompileOptions(policy="dynamic", flow="two_pass_sampled"),
    "auto": CompileOptions(policy="dynamic", flow="auto"),
    "delayed": CompileOptions(policy="delayed"),
}
#: Flows that have the bits of others; they differ in clocks.
KEEPING = {flow: CompileOptions(policy="dynamic", flow=flow) for flow in ("keep", "keep_sampled")}
#: Rules and samples beside the defaults.
VARIANTS = {
    "two_pass, max": CompileOptions(policy="dynamic", flow="two_pass", rule="max"),
    "two_pass, rate 10": CompileOptions(policy="dynamic", flow="two_pass", rate=10),
    "sampled, margin 1": CompileOptions(policy="dynamic", margin=1),
    "sampled 1/4": CompileOptions(policy="dynamic", sample=4),
}
#: Points that dynamic positions may cost, and clocks that they may add to a layer that multiplies all the time.
ACCURACY_GOAL, CLOCKS_GOAL = 0.3, 0.15
#: How much brighter inputs become.
GAIN = 4.0
#: Samples of one batch of two overlapped runs: the preceding one computes one of them.
ITEMS = 8


@dataclass
class Case:
    """A network with its samples on an accelerator."""

    name: str
    folder: Path
    accelerator: Accelerator
    limit: int

    @property
    def model(self) -> Path:
        return self.folder / "models" / f"{self.name}.onnx"

    @cached_property
    def samples(self) -> tuple[Floats, Floats]:
        """(samples, calibration samples)."""
        x, calibration = network_samples(self._network, self.folder, self.model)
        return x[: self.limit], calibration

    @cached_property
    def labels(self) -> npt.NDArray[np.int64]:
        with np.load(self.folder / "data" / f"{self._network.data}.npz", allow_pickle=False) as file:
            return np.asarray(file["y"])[: self.limit]

    @property
    def _network(self) -> Network:
        return network_named(self.name)

    def program(self, recipe: CompileOptions) -> Program:
        """Compiled; dynamic recipes see no sample."""
        calibration = self.samples[1] if recipe.policy == "auto" else None
        return compile_model(self.model, self.accelerator, calibration, recipe)

    def classes(self, recipe: CompileOptions, x: Floats) -> npt.NDArray[np.intp]:
        """Class of every sample on the accelerator."""
        result = run(self.program(recipe), x, "emulator")
        return np.asarray(next(iter(result.outputs.values())).reshape(len(x), -1).argmax(1))

    def float_classes(self, x: Floats) -> npt.NDArray[np.intp]:
        """Class of every sample in floating point."""
        return np.asarray(float_run(self.model, x).reshape(len(x), -1).argmax(1))


def percent(part: float) -> str:
    return f"{100 * part:.2f}"


def accuracy(cases: list[Case], missed: list[str]) -> str:
    """Accuracy of every recipe on samples as they are."""
    recipes = {**{name: recipe for name, recipe in RECIPES.items() if name != "delayed"}, **VARIANTS}
    rows = []
    for case in cases:
        x, y = case.samples[0], case.labels
        reference = case.float_classes(x)
        static = case.classes(RECIPES["static"], x) == y
        rows.append([case.name, "float", percent(float((reference == y).mean())), "", ""])
        for name, recipe in recipes.items():
            found = case.classes(recipe, x)
            right = found == y
            paired = f"+{int((right & ~static).sum())} -{int((~right & static).sum())}"
            agreement = percent(float((found == reference).mean()))
            rows.append([case.name, name, percent(float(right.mean())), paired, agreement])
            below = 100 * float(static.mean() - right.mean())
            if name in RECIPES and below > ACCURACY_GOAL:
                missed.append(f"{case.name}, {name}: {below:.2f} points below static, at most {ACCURACY_GOAL}")
    head = ["network", "positions", "top-1 %", "against static, samples", "agreement with float %"]
    return table(head, rows)


def brightness(count: int) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    """Kinds of change, with the factor of every sample."""
    gains = np.ones(count, np.float32)
    gains[count // 2 :] = GAIN
    yield f"times {GAIN:g} from the middle on", gains
    yield f"every other one times {GAIN:g}", np.where(np.arange(count) % 2, GAIN, 1.0).astype(np.float32)


def shift(cases: list[Case], missed: list[str]) -> str:
    """Agreement with the float network when the brightness of samples changes: flow 0 against flows 1 to 4."""
    rows = []
    for case in cases:
        x = case.samples[0]
        for kind, gains in brightness(len(x)):
            changed = x * gains.reshape(-1, *[1] * (x.ndim - 1))
            reference = case.float_classes(changed)
            row = [case.name, kind]
            for recipe in RECIPES.values():
                row.append(percent(float((case.classes(recipe, changed) == reference).mean())))
            rows.append(row)
    return table(["network", "inputs", *RECIPES], rows)


def multiplying_layers(program: Program) -> list[str]:
    """Layers of which every pass multiplies longer than its results take to leave."""
    found = set()
    for step in program.steps:
        for operation, _ in step_operations(program, step):
            descriptor = operation.descriptor
            if descriptor.operation == Operation.GEMM and descriptor.steps > drain_cycles(program.config, descriptor):
                found.add(operation.layer)
    return sorted(found)


def clocks(cases: list[Case], missed: list[str]) -> str:
    """Clocks of a sample, and of the layers that multiply all the time."""
    rows = []
    for case in cases:
        programs = {name: case.program(recipe) for name, recipe in (RECIPES | KEEPING).items() if name != "delayed"}
        counts = {name: program_cycles(program) for name, program in programs.items()}
        static, bound = counts.pop("static"), multiplying_layers(programs["static"])
        row = [case.name, f"{static.dma_inclusive:,}"]
        for name, count in counts.items():
            more = [count.layers[layer].total / static.layers[layer].total - 1 for layer in bound]
            whole = count.dma_inclusive / static.dma_inclusive - 1
            row.append(f"{count.dma_inclusive:,} (+{whole:.1%}); layers +{min(more):.1%} to +{max(more):.1%}")
            if name in ("two_pass_sampled", "auto") and max(more) > CLOCKS_GOAL:
                above = sum(part > CLOCKS_GOAL for part in more)
                missed.append(f"{case.name}, {name}: {above} of {len(bound)} layers above +{CLOCKS_GOAL:.0%}")
        rows.append(row)
    return table(["network", "static", "two_pass", "two_pass_sampled, 1/8", "auto", *KEEPING], rows)


def pipeline(cases: list[Case], missed: list[str]) -> str:
    """Two runs of one kernel as two would overlap them: one of eight samples ahead, then all of them (FP R37, R41)."""
    rows = []
    for case in cases:
        once = measured_clocks(case.program(RECIPES["two_pass"]))
        main = program_cycles(case.program(RECIPES["static"])).layers
        whole = [ITEMS * count.total for count in main.values()]
        times = StageTimes(tuple(once.get(name, main[name].total) for name in main), tuple(whole))
        rows.append(
            [case.name, f"{sum(whole):,}", f"{times.sequential:,}", f"{times.makespan:,}", f"{times.overhead:,}",
             f"{max(whole):,}"]
        )  # fmt: skip
        if times.overhead > max(whole):
            missed.append(f"{case.name}: overlapped it takes {times.overhead} clocks more, one layer are {max(whole)}")
    head = ["network", f"main alone, {ITEMS} samples", "one after the other", "overlapped", "more", "longest layer"]
    return table(head, rows)


def measured_clocks(program: Program) -> dict[str, int]:
    """Clocks of the operations that measure, by layer."""
    found: dict[str, int] = {}
    for step in program.steps:
        for operation, times in step_operations(program, step):
            if operation.descriptor.flags & Flag.MEASURE:
                spent = times * operation_clocks(program.config, operation)
                found[operation.layer] = found.get(operation.layer, 0) + spent
    return found


PARTS = {"accuracy": accuracy, "shift": shift, "clocks": clocks, "pipeline": pipeline}


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__, "--markdown")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--network", nargs="+", default=list(NAMES))
    parser.add_argument("--accelerator", default="pynq_z2_flows")
    parser.add_argument("--samples", type=int, default=1000, help="samples of each network, at most")
    arguments = parser.parse_args(given)
    folder, accelerator = required_models_folder(), load_accelerator(arguments.accelerator)
    cases = [Case(name, folder, accelerator, arguments.samples) for name in arguments.network]
    cases = [case for case in cases if case.model.exists()]
    missed: list[str] = []
    parts = []
    for name in arguments.part:
        parts.append(f"{(PARTS[name].__doc__ or name).strip()}\n\n{PARTS[name](cases, missed)}\n")
        print(parts[-1], flush=True)
    write_file(arguments.markdown, "\n".join(parts))
    return status(missed)


if __name__ == "__main__":
    sys.exit(main())
