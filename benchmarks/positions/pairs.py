"""What it costs that one group of kernels finds the exponents for another: real networks, counted clocks.

    BFPGA_MODELS=FOLDER python -m benchmarks.positions.pairs [--network NAME ...] [--kernels 8 ...] [--device csim]
        [--picture FILE.png]
    BFPGA_MODELS=FOLDER python -m benchmarks.positions.pairs --stream [--images 96]

Embodiments 6 (1 of 4 equal kernels precedes 3) and 7 (a kernel of a quarter of the multipliers precedes 2 large ones),
a pair in which 2 of 4 kernels precede with half of the items and 2 compute the others only, and embodiments 8 (3 of 4
precede, 1 converts their accumulators and computes the other items) and 9 (2 large ones precede, a small one converts).
Fully connected networks, a batch split over the kernels. Every layer's time is its slowest kernel's; the event
model puts both sides together, the last column for ten batches in a row. Ends with 1 if the bits are not those of one
kernel that runs flow 2 with the same sample (of embodiments 8 and 9: of a pair that moves nothing), or if a pair takes
longer than the main side alone and its longest layer, unless its sample is more than the preceding side can compute in
the same time.

With --stream two cores of one overlay on the virtual board compute ResNet-8 at the same time, exponents go from core to
core in hardware: one of three images finds them in two passes, the other core computes the other two (embodiment 7).
Against one core that does the same, batch after batch, and one of which every image finds its own. Ends with 1 if the
bits are not those of the emulator, or if two cores are less than 1.6 times as fast as one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.common.command import ROOT, command, required_models_folder
from benchmarks.common.networks import NETWORKS, Array, Network, scaled, windows
from benchmarks.common.report import write_picture
from bfpga.accelerator.loader import Accelerator, load_accelerator
from bfpga.accelerator.variants import with_cores
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions, RuleName
from bfpga.compiler.schedule.given_exponents import with_given_exponents
from bfpga.contract.flows import Sample
from bfpga.contract.program import ArrayNode, Program
from bfpga.devices.emulator import Emulator
from bfpga.devices.position_pair import PairRun
from bfpga.engines.positions.pipeline_events import simulate
from bfpga.engines.positions.pipeline_picture import draw_timeline, timeline_table
from bfpga.engines.positions.sampling import SampleFraction, Sampling
from bfpga.runtime_pair import PairSide, open_cores, open_pair, open_streamed_pair

ACCELERATOR = ROOT / "configs" / "accelerators" / "pynq_z2_flows.yaml"
NAMES = ("mlp_digits", "mlp_mnist", "ad01_autoencoder")
ARRANGEMENTS = ("6", "2 + 2", "7", "8", "9")
BATCH = 96
#: Two cores whose output stage finds exponents, of the size of those of `kv260_two_cores`.
STREAMED = ROOT / "configs" / "accelerators" / "kv260_two_cores.yaml"
STREAMED_NETWORK, STREAMED_BATCH, GOAL = "resnet8_cifar10", 3, 1.6
THIRD = Sampling.along("B", SampleFraction(1, STREAMED_BATCH))
ITERATIONS = 10
#: Layers that the preceding side may be ahead: a word of 16 bits each.
DEPTH = 16
FRACTIONS = (SampleFraction(1, 8), SampleFraction(1, 16), SampleFraction(1, 32))
HALF = SampleFraction(1, 2)
EVERYTHING = SampleFraction(1, 1)


@dataclass(frozen=True)
class Arrangement:
    """Kernels of both sides. once, moves_wide: as for ``open_pair``."""

    name: str
    preceding: PairSide
    main: PairSide
    fractions: tuple[SampleFraction, ...] = FRACTIONS
    rule: RuleName = "rate"
    once: bool = False
    moves_wide: bool = False


def arrangements(device: str) -> list[Arrangement]:
    large = load_accelerator(ACCELERATOR)
    small = quarter(large)
    wide = replace(large, name=f"{large.name}_wide", config=replace(large.config, wide_memory=True))
    eight, nine = (SampleFraction(3, 4), EVERYTHING), (SampleFraction(7, 8), EVERYTHING)
    return [
        Arrangement("6", PairSide(large, 1, device), PairSide(large, 3, device)),
        Arrangement("2 + 2", PairSide(large, 2, device), PairSide(large, 2, device), (HALF,), "lead", True),
        Arrangement("7", PairSide(small, 1, device), PairSide(large, 2, device)),
        Arrangement("8", PairSide(wide, 3, device), PairSide(wide, 1, device), eight, "lead", moves_wide=True),
        Arrangement("9", PairSide(wide, 2, device), PairSide(quarter(wide), 1, device), nine, "lead", moves_wide=True),
    ]


def quarter(large: Accelerator) -> Accelerator:
    """Half the rows of half the columns."""
    array = replace(large.config, columns=large.config.columns // 2, rows=large.config.rows // 2)
    return replace(large, name=f"{large.name}_quarter", config=array)


def samples(network: Network, folder: Path) -> Array:
    with np.load(folder / "data" / f"{network.data}.npz", allow_pickle=False) as file:
        x = scaled(file)
    x = windows(x[:8])[::7] if network.name == "ad01_autoencoder" else x.reshape(len(x), -1)
    return np.asarray(x[:BATCH])


def alone(model: Path, arranged: Arrangement, x: Array, fraction: SampleFraction) -> Array:
    """Flow 2 with the same items on one emulated kernel; a pair that moves nothing, where accumulators move."""
    large, rule = load_accelerator(ACCELERATOR), arranged.rule
    if arranged.moves_wide:
        still = Arrangement(arranged.name, PairSide(large), PairSide(large), rule=rule)
        (output,) = run(model, still, x, fraction).outputs.values()
        return np.asarray(output)
    options = CompileOptions(policy="dynamic", flow="two_pass", rule=rule)
    program = compile_network(model, large, None, options, items=len(x))
    for node in program.nodes:
        assert isinstance(node, ArrayNode)
        node.policy.sample = Sample(((0, node.channels),), fraction.period)
    (output,) = Emulator(program).run({next(iter(program.inputs)): x[None]}).outputs.values()
    return np.asarray(output[0])


def run(model: Path, arranged: Arrangement, x: Array, fraction: SampleFraction) -> PairRun:
    pair = open_pair(
        model, arranged.preceding, arranged.main, len(x), Sampling.along("B", fraction),
        rule=arranged.rule, depth=DEPTH, once=arranged.once, moves_wide=arranged.moves_wide,
    )  # fmt: skip
    try:
        return pair.run(x)
    finally:
        pair.close()


def streamed_accelerator() -> Accelerator:
    ready = load_accelerator(STREAMED)
    config = replace(
        ready.config, static_exponents=False, residual_adds=False, position_bins=16, position_stream=True
    )  # fmt: skip
    return with_cores(replace(ready, name="kv260_streamed", config=config), ready.cores)


def clocks_alone(program: Program, accelerator: Accelerator, x: Array) -> int:
    """Measured clocks of a start with these samples on one core."""
    cores = open_cores([program, program], accelerator, "virtual")
    try:
        cores[0].begin(x, None, 0)
        measured = cores[0].finish().measured
    finally:
        for core in cores:
            core.close()
    assert measured is not None
    return measured.clocks


def stream(folder: Path, images: int) -> int:
    """Two cores that run at the same time; 1 if they are too slow, or compute other bits."""
    network = next(item for item in NETWORKS if item.name == STREAMED_NETWORK)
    model = folder / "models" / f"{network.name}.onnx"
    with np.load(folder / "data" / f"{network.data}.npz", allow_pickle=False) as file:
        x, accelerator = scaled(file)[:images], streamed_accelerator()
    runs = []
    for device in ("virtual", "emulator"):
        pair = open_streamed_pair(model, accelerator, STREAMED_BATCH, THIRD, device=device)
        runs.append(pair.run(x))
        pair.close()
    found = runs[0]
    equal = all(np.array_equal(value, runs[1].outputs[name]) for name, value in found.outputs.items())
    options = CompileOptions(policy="dynamic", flow="two_pass", remainders="never")
    finding = compile_network(model, accelerator, None, options)
    finds = clocks_alone(finding, accelerator, x[:1])
    rest = clocks_alone(with_given_exponents(finding), accelerator, x[1:STREAMED_BATCH])
    everything = clocks_alone(finding, accelerator, x[:STREAMED_BATCH])
    print("| batch | core 0 begins | ends | core 1 begins | ends |\n|---|---|---|---|---|")
    for number, (first, second) in enumerate(zip(*found.begins_and_ends(), strict=True)):
        print(f"| {number} | {first[0]:,} | {first[1]:,} | {second[0]:,} | {second[1]:,} |")
    last, rate = max(core[-1][1] for core in found.begins_and_ends()), accelerator.clock_mhz * 1e6
    one, all_of_them = found.batches * (finds + rest), found.batches * everything
    print(f"\n{len(x)} images of {network.name}, {accelerator.clock_mhz:g} MHz, bits of the emulator: {equal}\n")
    print("| cores | clocks | images/s | times one core |\n|---|---|---|---|")
    for cores, clocks in (("two", last), ("one, same flow", one), ("one, every image finds its own", all_of_them)):
        print(f"| {cores} | {clocks:,} | {len(x) * rate / clocks:,.0f} | {one / clocks:.2f} |")
    return 0 if equal and one >= GOAL * last else 1


def row(name: str, kernels: str, fraction: SampleFraction, found: PairRun, equal: bool) -> tuple[str, bool]:
    """A line of the table, and whether the goal is met."""
    times, makespan = found.times(), found.timeline().makespan
    preceding, main, longest = sum(times.preceding), sum(times.main), max(times.main)
    ten = simulate(times, [-e for e in found.batches[0].exponents], found.depth, ITERATIONS).makespan / ITERATIONS
    line = (
        f"| {name} | {kernels} | {fraction} | {preceding:.1f} | {main:.1f} | {makespan:.1f} "
        f"(+{makespan / main - 1:.1%}) | {longest:.1f} | {times.sequential:.1f} | {'yes' if equal else 'NO'} "
        f"| {ten:.1f} |"
    )
    return line, equal and (makespan <= main + longest or preceding > main)


def main(given: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("--network", action="append", choices=NAMES)
    parser.add_argument("--kernels", action="append", choices=ARRANGEMENTS)
    parser.add_argument("--device", default="emulator")
    parser.add_argument("--picture", type=Path, help="timeline of the last pair")
    parser.add_argument("--stream", action="store_true", help="two cores of one overlay that run at the same time")
    parser.add_argument("--images", type=int, default=BATCH, help="with --stream; a multiple of 3")
    arguments = parser.parse_args(given)
    folder = required_models_folder()
    if arguments.stream:
        return stream(folder, arguments.images)
    arranged_so = [item for item in arrangements(arguments.device) if item.name in (arguments.kernels or [item.name])]
    lines, good = [], True
    for network in (item for item in NETWORKS if item.name in (arguments.network or NAMES)):
        model, x = folder / "models" / f"{network.name}.onnx", samples(network, folder)
        for arranged in arranged_so:
            for fraction in arranged.fractions:
                found = run(model, arranged, x, fraction)
                (output,) = found.outputs.values()
                equal = np.array_equal(output, alone(model, arranged, x, fraction))
                line, met = row(network.name, arranged.name, fraction, found, equal)
                lines.append(line)
                good &= met
        print(f"\n{network.name}, kernels as in {arranged.name}, {fraction}, microseconds:\n")
        print(timeline_table(found.layers, found.times(), found.timeline()), flush=True)
        if arguments.picture:
            write_picture(arguments.picture, draw_timeline(found.timeline()))
    print(
        "\n| network | kernels | sample | preceding alone | main alone | pair | longest main layer | one after the "
        "other | bits of one kernel | a batch of ten |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    print("\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
