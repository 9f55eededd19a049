"""cluster_*.hpp, variants A to E, against the vectors and the numpy cluster: results and every counter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bfpga.devices.csim import Integers
from bfpga.engines.partition import PartitionSettings
from bfpga.engines.partition_geometry import Padding
from bfpga.engines.sparse_cluster import SparseCluster, SparseClusterConfig, SparseLayer
from bfpga.engines.sparse_cluster_output import read_out
from bfpga.engines.sparse_cluster_weights import weight_order
from bfpga.formats.rounding import wrap
from cluster_cpp import COUNTERS, Build, PieceCase, PieceRun, builds, find, issued_weights, run_piece
from cpp_units import BUILDS, library
from sparse_vectors import FOLDER, load_vector

#: What the names of schedules in the vectors mean: variant of the library, and what can be chosen.
SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "A": ("A", {"keep_zeros": True}),
    "A_skip": ("A", {"keep_zeros": True}),
    "B": ("B", {}),
    "C_w1": ("C", {"cap": 1}),
    "C_w2": ("C", {"cap": 2}),
    "C_w3": ("C", {"cap": 3}),
    "C_wmax": ("C", {"cap": 256}),
    "D_w2": ("D", {"cap": 2}),
    "D_wmax": ("D", {"cap": 256}),
    "E": ("E", {}),
}
CASES = [
    (path.stem, schedule)
    for path in sorted(FOLDER.glob("sc*.json"))
    for schedule in load_vector(path.stem)["expected"].get("schedules", {})
]
#: Counters that the vectors hold.
COUNTED = COUNTERS[:9]
ONE_UNIT = PartitionSettings(grid=(1, 1), mode="overlap_add")


def vector_run(integers: Integers, name: str, schedule: str) -> PieceRun:
    vector = load_vector(name)
    config, kernel = vector["config"], np.array(vector["weights"]["kernel"])
    variant, chosen = SCHEDULES[schedule]
    order = config.get("weight_order")
    places = list(map(tuple, order)) if isinstance(order, list) else None
    if places is None:
        places = weight_order(kernel.shape, "serpentine" if variant == "A" else "raster")
    weights = issued_weights(kernel, places, zeros=schedule == "A")
    case = PieceCase(np.array(vector["input"]["map"])[None], [[weights]], kernel.shape, **chosen)
    return run_piece(integers, find(integers, config["p"], tuple(config["tile"])), variant, case)


@pytest.mark.parametrize(("name", "schedule"), CASES)
@pytest.mark.parametrize("integers", BUILDS)
def test_results_and_counters_are_those_of_the_vector(integers: Integers, name: str, schedule: str) -> None:
    """Functions SC R19, SC R35, SC R69-R72, SC R74, SC R80, SC R91, SC R92, SC R105, SC R112, SC R113.

    Counters SC R61, SC R78, SC R83, SC R85, SC R97-R102, SC R104, SC R108-R111, SC R114, SC R152, SC R153.
    """
    vector, run = load_vector(name), vector_run(integers, name, schedule)
    assert run.full[0].tolist() == vector["expected"]["full"]
    config, kernel = vector["config"], np.array(vector["weights"]["kernel"])
    layer = SparseLayer(kernel[None, :, :, None], Padding(*config["pad"]), tuple(config["stride"]))
    shape = np.array(vector["input"]["map"]).shape
    assert read_out(run.full.transpose(1, 2, 0), layer, *shape)[:, :, 0].tolist() == vector["expected"]["out"]
    expected = {key: value for key, value in vector["expected"]["schedules"][schedule].items() if key != "trace"}
    assert len(expected) == len(COUNTED)
    assert {key: run.counters[key] for key in expected} == expected


def random_grid(generator: np.random.Generator, shape: tuple[int, ...], density: float, bits: int) -> np.ndarray:
    values = generator.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape)
    return np.where(generator.random(shape) < density, values, 0)


@st.composite
def pieces(draw: st.DrawFn, variant: str) -> tuple[int, Build, SparseCluster, np.ndarray, PieceCase]:
    """A build, a layer for it in numpy, an image that is one piece, and the same for the C++."""
    number = draw(st.integers(0, len(builds("native")) - 1))
    build = builds("native")[number]
    generator = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    kernel = draw(st.integers(1, build.kernel_rows)), draw(st.integers(1, build.kernel_columns))
    shape = draw(st.integers(1, build.piece_rows)), draw(st.integers(1, build.piece_columns))
    kernels = draw(st.integers(1, build.kernels_in_flight)) if variant == "E" else 1
    channels = draw(st.integers(1, 3))
    x = random_grid(generator, (channels, *shape), draw(st.sampled_from([0.05, 0.3, 0.7, 1.0])), build.input_bits)
    weights = random_grid(
        generator, (kernels, *kernel, channels), draw(st.sampled_from([0.3, 0.7, 1.0])), build.weight_bits
    )
    order = tuple(draw(st.permutations(weight_order(kernel, "raster"))))
    keep, zeros = variant == "A" and draw(st.booleans()), variant == "A" and draw(st.booleans())
    cap = draw(st.sampled_from([1, 2, 3, 256])) if variant[0] in "CD" else 1
    cap = min(cap, build.weights_per_round)
    earlier, by_column = draw(st.booleans()), variant[0] in "CD" and draw(st.booleans())
    config = SparseClusterConfig(
        units=1, lanes=build.lanes, variant=variant[0], weights_per_round=cap, tile=build.tile,  # type: ignore[arg-type]
        largest_kernel=(5, 5), input_bits=build.input_bits, weight_bits=build.weight_bits, accumulator_bits=48,
        kernels_in_flight=64, accumulator_words=2048, conflict="bank" if variant.endswith("bank") else "index",
        merge_policy="defer_earlier" if earlier else "defer_later", weight_order=order, keep_zeros=keep,
        skip_zero_weights=not zeros, pointwise="variant", partition=ONE_UNIT,
        data_order="column" if by_column else "raster",
    )  # fmt: skip
    padding = Padding(*[side - 1 for side in kernel for _ in range(2)])
    cluster = SparseCluster(SparseLayer(weights, padding), config)
    issued = [
        [issued_weights(weights[z, :, :, channel], order, zeros=zeros) for z in range(kernels)]
        for channel in range(channels)
    ]
    case = PieceCase(x, issued, kernel, keep, draw(st.booleans()), by_column, cap, earlier)
    return number, build, cluster, x.transpose(1, 2, 0), case


def check(integers: Integers, variant: str, example: tuple[int, Build, SparseCluster, np.ndarray, PieceCase]) -> None:
    """Sums modulo the accumulator, every counter, and the counters that only hardware has."""
    number, build, cluster, image, case = example
    run = run_piece(integers, number, variant, case)
    sums = wrap(cluster.run(image[None])[0].transpose(2, 0, 1), build.accumulator_bits)
    np.testing.assert_array_equal(run.full, sums)
    counters = cluster.cycles(image).counters
    assert {name: run.counters[name] for name in COUNTED} == {name: counters.total(name) for name in COUNTED}
    assert run.counters["loads"] == np.count_nonzero(image)
    occupied = run.counters["tiles"] - run.counters["tiles_skipped"]
    window = variant in ("B_window", "C", "D")
    assert run.counters["transfers"] == (2 * build.transfer * occupied if window else 0)
    assert run.counters["fifo_peak"] <= build.lanes - 1
    if variant == "E":
        steps = [[-(-len(kernel) // build.lanes) for kernel in channel] for channel in case.weights]
        slots = [max(sum(each), build.dependence_latency + max(each) - 1) if any(each) else 0 for each in steps]
        held = np.count_nonzero(case.values, axis=(1, 2))
        waited = sum(int(q) * (slot - sum(each)) for q, slot, each in zip(held, slots, steps, strict=True) if any(each))
        assert run.counters["waits"] == waited


@pytest.mark.parametrize("variant", ["A", "B", "B_window", "C", "C_bank", "D", "D_bank", "E"])
@settings(max_examples=60)
@given(st.data())
def test_random_pieces(variant: str, data: st.DataObject) -> None:
    """SC R34, SC R67, SC R75-R80, SC R83, SC R85, SC R92-R105, SC R108-R116: any kernel, tile, order, policy."""
    check("native", variant, data.draw(pieces(variant)))


@pytest.mark.parametrize("variant", ["A", "B", "B_window", "C", "C_bank", "D", "D_bank", "E"])
@settings(max_examples=8)
@given(st.data())
def test_random_pieces_with_ap_int(variant: str, data: st.DataObject) -> None:
    """SC R67, SC R73: the integers of synthesis give the same, with every multiplier."""
    library("cluster", "ap_int")
    check("ap_int", variant, data.draw(pieces(variant)))
