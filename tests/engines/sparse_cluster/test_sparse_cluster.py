"""The sparse cluster against the slow unit, and what no setting may change (SC R34)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import reference_sparse_cluster as slow
from hypothesis import given, settings
from hypothesis import strategies as st

from bfpga.engines.sparse_cluster.partition.exchange import PartitionSettings, PieceTooLargeError
from bfpga.engines.sparse_cluster.partition.geometry import Padding
from bfpga.engines.sparse_cluster.units.cluster import SparseCluster, SparseClusterConfig, SparseLayer
from bfpga.engines.sparse_cluster.units.output import PoolSettings, compressed_outputs, output_counts, pool, relu
from bfpga.engines.sparse_cluster.units.payload import payload_bytes
from bfpga.engines.sparse_cluster.units.plan import cut_out
from bfpga.errors import ConfigurationError, DataError
from bfpga.formats.compressed.maps import MapFormat, Payload
from bfpga.formats.compressed.payloads import decode_map, encode_map

ONE_UNIT = PartitionSettings(grid=(1, 1), mode="overlap_add")
#: Every variant, with what can be chosen inside it.
VARIANTS: list[dict[str, Any]] = [
    {"variant": "A", "keep_zeros": keep, "skip_zero_weights": skip} for keep in (True, False) for skip in (True, False)
] + [{"variant": "B"}, {"variant": "E"}] + [
    {"variant": variant, "weights_per_round": cap, "conflict": conflict, "merge_policy": policy}
    for variant in "CD" for cap in (1, 2, 5, 256) for conflict in ("index", "bank")
    for policy in ("defer_later", "defer_earlier")
]  # fmt: skip


def random_grid(generator: np.random.Generator, shape: tuple[int, ...], density: float, largest: int = 9) -> np.ndarray:
    values = generator.integers(1, largest + 1, shape) * generator.choice([-1, 1], shape)
    return np.where(generator.random(shape) < density, values, 0)


@settings(max_examples=150)
@given(st.sampled_from(VARIANTS), st.integers(0, 1 << 20), st.data())
def test_counters_are_those_of_the_slow_unit(variant: dict[str, Any], seed: int, data: st.DataObject) -> None:
    """SC R69-R72, SC R78-R80, SC R85, SC R96, SC R97-R104, SC R106, SC R108-R111, SC R113-R115: product by product."""
    generator = np.random.default_rng(seed)
    kernel = random_grid(generator, (data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))), generator.random())
    x = random_grid(generator, (data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))), generator.random())
    lanes, tile = data.draw(st.integers(1, 16)), (data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5)))
    if x.shape[0] < 1 or not x.size:
        return
    raster = [(a, b) for a in range(kernel.shape[0]) for b in range(kernel.shape[1])]
    order = data.draw(st.permutations(raster))
    unit = slow.UnitModel(
        kernel.tolist(), lanes, variant["variant"], variant.get("weights_per_round", 1), tile, order,
        zeros=variant["variant"] == "A" and variant["keep_zeros"],
        zero_weights=variant["variant"] == "A" and not variant["skip_zero_weights"],
        banks=variant.get("conflict") == "bank",
        earlier_waits=variant.get("merge_policy") == "defer_earlier",
    )  # fmt: skip
    unit.run(x.tolist())
    layer = SparseLayer(kernel[None, :, :, None], Padding(*[side - 1 for side in kernel.shape for _ in range(2)]))
    config = SparseClusterConfig(
        units=1, lanes=lanes, tile=tile, largest_kernel=(16, 16), pointwise="variant", partition=ONE_UNIT,
        accumulator_words=2048, weight_order=tuple(order), **variant,
    )  # fmt: skip
    cluster = SparseCluster(layer, config)
    counters = cluster.cycles(x[:, :, None]).counters
    assert {name: counters.total(name) for name in slow.COUNTERS} == unit.counts
    full = cluster.run(x[None, :, :, None])[0, :, :, 0]
    assert full.tolist() == slow.full_grid(x.tolist(), kernel.tolist())
    assert {place: value for place, value in unit.sums.items() if value} == {
        (int(row), int(column)): int(full[row, column]) for row, column in np.argwhere(full)
    }
    assert unit.counts["fifo_peak"] <= max(lanes - 1, 0)


@settings(max_examples=40)
@given(st.sampled_from("CD"), st.integers(0, 1 << 20))
def test_values_go_by_column_as_rows_of_the_transposed_map(variant: str, seed: int) -> None:
    """SC R79, SC R147: the order of values inside a micro-tile, and that of the weights."""
    generator = np.random.default_rng(seed)
    x, kernel = random_grid(generator, (9, 8), 0.5), random_grid(generator, (3, 2), 0.8)
    common = {"units": 1, "lanes": 9, "variant": variant, "weights_per_round": 4, "partition": ONE_UNIT}
    by_column = SparseClusterConfig(tile=(4, 3), data_order="column", weight_order="column", **common)
    by_row = SparseClusterConfig(tile=(3, 4), **common)
    first = SparseCluster(SparseLayer(kernel[None, :, :, None]), by_column).cycles(x[:, :, None])
    second = SparseCluster(SparseLayer(kernel.T[None, :, :, None]), by_row).cycles(x.T[:, :, None])
    assert first.counters.to_dict() == second.counters.to_dict()


@st.composite
def layers(draw: st.DrawFn) -> tuple[SparseLayer, np.ndarray]:
    """Layers with stride, padding, groups, and an image with zeros."""
    generator = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    kernel = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    groups = draw(st.sampled_from([1, 1, 2]))
    channels, outputs = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 3))
    padding = Padding(*(draw(st.integers(0, 4)) for _ in range(4)))
    stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rows = max(draw(st.integers(1, 14)), kernel[0] - padding.top - padding.bottom)
    columns = max(draw(st.integers(1, 14)), kernel[1] - padding.left - padding.right)
    density = draw(st.sampled_from([0.0, 0.1, 0.4, 1.0]))
    weights = random_grid(generator, (outputs, *kernel, channels // groups), draw(st.sampled_from([0.3, 1.0])), 127)
    return SparseLayer(weights, padding, stride, groups), random_grid(
        generator, (rows, columns, channels), density, 127
    )


def slow_outputs(layer: SparseLayer, image: np.ndarray) -> np.ndarray:
    """(rows, columns, kernels), gathered product by product."""
    inner, outputs = layer.weights.shape[3], len(layer.weights) // layer.groups
    maps = []
    for index, kernel in enumerate(layer.weights):
        first = index // outputs * inner
        parts = [
            slow.convolve(image[:, :, first + c].tolist(), kernel[:, :, c].tolist(), layer.padding, layer.stride)
            for c in range(inner)
        ]
        maps.append(np.sum(parts, axis=0))
    return np.stack(maps, axis=2)


@settings(max_examples=120)
@given(layers(), st.data())
def test_no_setting_changes_a_bit(case: tuple[SparseLayer, np.ndarray], data: st.DataObject) -> None:
    """SC R34, SC R38, SC R67, SC R105, SC R112, SC R128-R130, SC R136, SC R141: any variant, partition, mode, scope."""
    layer, image = case
    grid = data.draw(st.sampled_from([(1, 1), (1, 3), (2, 2), (3, 2)]))
    partition = PartitionSettings(
        grid,
        mode=data.draw(st.sampled_from(["halo", "overlap_add", "auto"])),
        scope=data.draw(st.sampled_from(["layer", "channel"])),
        start=data.draw(st.sampled_from(["equal", "quantile"])),
        metric=data.draw(st.sampled_from(["nnz_share", "zeros", "rounds"])),
        tau=data.draw(st.sampled_from([0.0, 3.0])),
    )
    variant = data.draw(st.sampled_from(VARIANTS))
    config = SparseClusterConfig(
        units=grid[0] * grid[1], lanes=data.draw(st.integers(1, 12)), largest_kernel=(4, 4), partition=partition,
        accumulator_words=data.draw(st.sampled_from([16, 128])), accumulator_bits=data.draw(st.sampled_from([32, 22])),
        **variant,
    )  # fmt: skip
    cluster = SparseCluster(layer, config)
    expected = slow_outputs(layer, image)
    assert (cluster.run(image[None])[0] == expected).all()
    plan = cluster.plan(image)
    stitched = cluster.stitch(cluster.piece_results(image, plan), plan, image.shape[:2])
    assert (stitched == expected).all()
    counters = cluster.cycles(image, plan).counters
    assert counters.total("issued") + counters.total("idle") <= config.lanes * counters.total("rounds")


@settings(max_examples=60)
@given(layers(), st.sampled_from(["halo", "overlap_add"]), st.integers(16, 60), st.sampled_from("ABCDE"))
def test_plans_fit_the_units(case: tuple[SparseLayer, np.ndarray], mode: str, words: int, variant: str) -> None:
    """SC R39, SC R55, SC R148, SC R155: folded until accumulators and memory hold every piece; nothing is lost.

    Variant E spreads a full grid over as many banks as the kernel has cells, the others over those of a micro-tile.
    """
    layer, image = case
    partition = PartitionSettings((2, 2), mode=mode)  # type: ignore[arg-type]
    config = SparseClusterConfig(
        units=4, largest_kernel=(4, 4), partition=partition, accumulator_words=words, memory_words=9,
        variant=variant, tile=None if variant == "E" else (2, 3),  # type: ignore[arg-type]
    )  # fmt: skip
    down, across = layer.kernel if variant == "E" else (2, 3)
    cluster = SparseCluster(layer, config)
    try:
        plan = cluster.plan(image)
    except PieceTooLargeError:
        # One output may need more than a unit has: a kernel of 4 x 4 reads 16 values.
        assert mode == "halo"
        return
    nonzero = (image != 0).transpose(2, 0, 1)
    for piece in plan.pieces:
        rows, columns = piece.stored.rows, piece.stored.columns
        assert -(-(rows + layer.kernel[0] - 1) // down) * -(-(columns + layer.kernel[1] - 1) // across) <= words
        assert np.count_nonzero(cut_out(nonzero, piece.stored), axis=(1, 2)).max() <= 9
    stitched = cluster.stitch(cluster.piece_results(image, plan), plan, image.shape[:2])
    assert (stitched == cluster.run(image[None])[0]).all()


def layer_and_image(channels: int = 4, outputs: int = 6, side: int = 16, density: float = 0.3) -> tuple[Any, ...]:
    generator = np.random.default_rng(7)
    weights = random_grid(generator, (outputs, 3, 3, channels), 0.5, 127)
    return SparseLayer(weights, Padding(1, 1, 1, 1)), random_grid(generator, (side, side, channels), density, 127)


def test_clocks_follow_the_equations() -> None:
    """SC R49, SC R50, SC R60, SC R114: E8, E11-E15 written out for one unit and one group after the other."""
    layer, image = layer_and_image()
    config = SparseClusterConfig(units=2, partition=PartitionSettings((1, 2)), kernels_in_flight=4)
    cluster = SparseCluster(layer, config)
    plan = cluster.plan(image)
    total, of_units = 0, [0, 0]
    for channel in range(4):
        for group in (layer.weights[:4], layer.weights[4:]):
            clocks = []
            for piece in plan.pieces:
                cells = image[
                    piece.stored.row0 : piece.stored.row1, piece.stored.column0 : piece.stored.column1, channel
                ]
                values = np.count_nonzero(cells)
                masks = -(-cells.shape[0] // 4) * -(-cells.shape[1] // 4) * 2
                load = -(-4 * (-(-masks // 4) + -(-values // 4)) // config.bus_bytes)
                compute = sum(values * -(-np.count_nonzero(kernel[:, :, channel]) // config.lanes) for kernel in group)
                clocks.append(config.start_cycles + max(load, compute) + config.flush_cycles)
                of_units[piece.unit] += clocks[-1]
            total += max(clocks)
    counted = cluster.cycles(image, plan)
    assert counted.cycles == total
    assert counted.independent_cycles == max(of_units)
    one_set = SparseCluster(layer, replace(config, memory_sets=1)).cycles(image, plan)
    assert one_set.cycles > counted.cycles


def test_windows_cost_their_transfer() -> None:
    """SC R76: s = 2 * ceil(window / ports) for each occupied tile and kernel (E13)."""
    layer, image = layer_and_image(channels=1, outputs=1)
    config = SparseClusterConfig(units=1, lanes=8, variant="B", partition=ONE_UNIT, window_ports=8)
    banked = SparseCluster(layer, config).cycles(image).counters
    window = SparseCluster(layer, replace(config, accumulator="window")).cycles(image).counters
    occupied = window.total("tiles") - window.total("tiles_skipped")
    assert window.total("compute") - banked.total("compute") == 2 * -(-36 // 8) * occupied


def test_balancing_makes_the_slowest_unit_faster() -> None:
    """SC R23, SC R153: an object in one corner."""
    layer, image = layer_and_image(channels=1, outputs=1, side=32)
    image[12:, :] = 0
    image[:, 16:] = 0
    config = SparseClusterConfig(partition=PartitionSettings((2, 4), mode="overlap_add", tau=0.5))
    balanced = SparseCluster(layer, config).cycles(image)
    equal = SparseCluster(layer, replace(config, partition=config.partition.without_moves())).cycles(image)
    assert balanced.counters.total("rounds") == equal.counters.total("rounds")
    assert balanced.rounds * 2 < equal.rounds
    assert balanced.imbalance < 1.3 < equal.imbalance
    assert 0 < balanced.utilization <= 1


def test_auto_takes_overlap_add_for_many_channels() -> None:
    """E19: repeated border work grows with the channels, raw results do not."""
    few, image = layer_and_image(channels=1, outputs=1, side=28)
    many, wide = layer_and_image(channels=128, outputs=1, side=28)
    config = SparseClusterConfig(partition=PartitionSettings(mode="auto"))
    assert SparseCluster(few, config).plan(image).mode == "halo"
    assert SparseCluster(many, config).plan(wide).mode == "overlap_add"


@pytest.mark.parametrize("payload", list(Payload))
def test_payloads_set_the_load(payload: Payload) -> None:
    """Clocks to load are the bytes of the encoded channels (E12)."""
    _, image = layer_and_image(side=11)
    cells = image.astype(np.int8).transpose(2, 0, 1)
    fmt = MapFormat(payload)
    encoded = [4 * len(encode_map(each, fmt)) for each in cells]
    assert payload_bytes(cells != 0, np.count_nonzero(cells, axis=(1, 2)), fmt).tolist() == encoded


def test_pointwise_layers_share_out_pixels_or_outputs() -> None:
    """SC R119, SC R120: lanes are non-zero channels of a pixel; on one pixel the outputs are shared out."""
    generator = np.random.default_rng(3)
    layer = SparseLayer(random_grid(generator, (10, 1, 1, 20), 1.0), stride=(2, 2))
    image = random_grid(generator, (9, 9, 20), 0.3)
    config = SparseClusterConfig(lanes=4)
    counted = SparseCluster(layer, config).cycles(image).counters
    values = np.count_nonzero(image[::2, ::2], axis=2)
    assert counted.total("rounds") == 10 * int((-(-values // 4)).sum())
    assert counted.total("issued") == 10 * int(values.sum())
    pixel = SparseCluster(replace(layer, stride=(1, 1)), config).cycles(image[:1, :1]).counters
    assert pixel.rounds.tolist() == [2 * -(-values[0, 0] // 4)] * 2 + [-(-values[0, 0] // 4)] * 6


def test_outputs_are_counted_for_the_next_layer() -> None:
    """SC R131: counts per piece, row and column."""
    _, image = layer_and_image()
    counts = output_counts(image)
    assert counts.total == np.count_nonzero(image) == counts.rows.sum() == counts.columns.sum()
    assert counts.rows[3] == np.count_nonzero(image[3])
    assert counts.columns[5] == np.count_nonzero(image[:, 5])


@pytest.mark.parametrize("payload", list(Payload))
def test_outputs_leave_in_the_formats_of_the_inputs(payload: Payload) -> None:
    """SC R127, SC R145, SC R151: ReLU, pooling, compression; what comes back is the next layer's input."""
    layer, image = layer_and_image()
    values = pool(relu(np.clip(SparseCluster(layer, SparseClusterConfig()).run(image[None])[0] >> 8, -128, 127)),
                  PoolSettings("max"))  # fmt: skip
    fmt = MapFormat(payload)
    payloads = compressed_outputs(values, fmt)
    back = np.stack([decode_map(words, *values.shape[:2], fmt) for words in payloads], axis=2)
    assert (back == values).all()
    follow = SparseLayer(np.ones((2, 3, 3, values.shape[2]), int))
    cluster = SparseCluster(follow, SparseClusterConfig())
    assert (cluster.run(back[None]) == cluster.run(values[None])).all()


def test_extreme_values() -> None:
    """SC R67: -128 times -128."""
    layer = SparseLayer(np.full((1, 1, 1, 1), -128))
    config = SparseClusterConfig(units=1, partition=ONE_UNIT)
    assert SparseCluster(layer, config).run(np.full((1, 1, 1, 1), -128)).item() == 16384


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"units": 4}, "grid 2 x 4 makes 8 pieces for 4 units"),
        ({"lanes": 0}, "lanes is 0"),
        ({"weights_per_round": 0}, "weights_per_round is 0"),
        ({"tile": (0, 4)}, "tile is"),
        ({"largest_kernel": (17, 3)}, "largest_kernel"),
        ({"accumulator_bits": 18}, "need 20"),
        ({"variant": "F"}, "variant is 'F'"),
        ({"conflict": "none"}, "conflict is 'none'"),
    ],
)
def test_clusters_that_cannot_be_built_are_refused(values: dict[str, Any], message: str) -> None:
    """SC R154."""
    with pytest.raises(ConfigurationError, match=message):
        SparseClusterConfig(**values)


def test_layers_that_cannot_run_are_refused() -> None:
    """SC R154, E10: kernels too large, sums too wide, inputs of another shape or range."""
    config = SparseClusterConfig(accumulator_bits=24)
    with pytest.raises(ConfigurationError, match="5 x 5"):
        SparseCluster(SparseLayer(np.ones((1, 5, 5, 1), int)), config)
    with pytest.raises(ConfigurationError, match="need 29"):
        SparseCluster(SparseLayer(np.ones((1, 3, 3, 512), int)), config)
    with pytest.raises(ConfigurationError, match="weights have shape"):
        SparseLayer(np.ones((3, 3), int))
    with pytest.raises(ConfigurationError, match="stride"):
        SparseLayer(np.ones((1, 3, 3, 1), int), stride=(0, 1))
    with pytest.raises(ConfigurationError, match="groups"):
        SparseLayer(np.ones((3, 3, 3, 1), int), groups=2)
    twice = SparseCluster(
        SparseLayer(np.ones((1, 1, 2, 1), int)), replace(config, variant="C", weight_order=((0, 0), (0, 0)))
    )
    with pytest.raises(ConfigurationError, match="weight order"):
        twice.cycles(np.ones((4, 8, 1), int))
    cluster = SparseCluster(SparseLayer(np.ones((1, 3, 3, 2), int)), config)
    with pytest.raises(DataError, match="rows, columns, 2"):
        cluster.run(np.ones((1, 8, 8, 1), int))
    with pytest.raises(DataError, match="smaller than the kernel"):
        cluster.run(np.ones((1, 2, 8, 2), int))
    with pytest.raises(DataError, match="8 bits hold"):
        cluster.run(np.full((1, 8, 8, 2), 128))
    with pytest.raises(DataError, match="integers are needed"):
        cluster.run(np.ones((1, 8, 8, 2)))
    with pytest.raises(ConfigurationError, match="pooling"):
        pool(np.ones((4, 4, 1), int), PoolSettings("max", (0, 2)))
