"""Layers on engines beside the array: how they are cut, placed and described (docs/engines.md, sections 3, 6 and 7)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from array_layers import PlainKernel, gemm, image

from bfpga.compiler.schedule.pitch_choice import PitchChoice
from bfpga.compiler.schedule.schedule import Scheduler
from bfpga.compiler.schedule.weight_plan import plan_weights, setup_launch
from bfpga.contract.configuration import SystolicConfig
from bfpga.contract.descriptor import Descriptor, Flag, Operation, Policy
from bfpga.contract.engine_numbers import EngineName
from bfpga.contract.program import ArrayNode, KernelOperation, LaunchStep, PolicySpec, Program, TensorSpec, Tile, Window
from bfpga.devices.emulator import Emulator
from bfpga.devices.kernel_device import KernelDevice
from bfpga.engines.array.descriptors import Placement
from bfpga.engines.array.regions import Region
from bfpga.engines.beside.embedded_kernels import Lines, embedded_size, embedded_weights, kernel_margins, padding
from bfpga.engines.registry import engine_beside
from bfpga.engines.sparse_cluster.descriptors import descriptor as cluster_descriptor
from bfpga.engines.sparse_cluster.limits import piece_limits
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.sparse_cluster.tiles import cluster_strips
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.engines.zero_skip.tiles import tiles as zero_skip_tiles
from bfpga.errors import ProgramError
from bfpga.program.file import load_program, save_program

SMALL = SystolicConfig(
    columns=9, rows=4, lanes=2, activation_words=512, weight_words=512, parameter_rows=64,
    beside=(
        ZeroSkipNumbers(
            tile_height=4, tile_width=5, lanes=9, kernels_in_flight=4, kernel_height=3, kernel_width=3, load_pixels=4
        ),
        ClusterNumbers(
            grid_rows=2, grid_columns=2, kernels_in_flight=4, accumulator_words=24, memory_words=24, load_pixels=4
        ),
    ),
)  # fmt: skip
ENGINES: tuple[EngineName, ...] = ("zero_skip", "sparse_cluster")


def convolution(
    engine: EngineName,
    size: tuple[int, int, int] = (11, 13, 5),
    channels: int = 7,
    kernel: int = 3,
    stride: int = 1,
    pad: int = 1,
    **fields: object,
) -> tuple[ArrayNode, dict[str, TensorSpec]]:
    """A pruned layer from x to y and its tensors; size: rows, columns, channels of its input."""
    rng = np.random.default_rng(channels)
    shape = channels, kernel, kernel, size[2]
    weights = np.where(rng.random(shape) < 0.4, rng.integers(-99, 100, shape), 0)
    height, width = ((side + 2 * pad - kernel) // stride + 1 for side in size[:2])
    window = Window(kernel, kernel, stride, stride, pad, pad, 1, 1, height, width)
    bias = rng.integers(-500, 500, channels)
    fields = {"policy": PolicySpec(Policy.STATIC, 0), **fields}
    node = gemm(weights, window, engine=engine, bias=bias, bias_exponent=-8, **fields)
    return node, {"x": image("x", *size, exponent=-7), "y": image("y", height, width, channels)}


def scheduled(config: SystolicConfig, tensors: dict[str, TensorSpec], nodes: list[ArrayNode]) -> Program:
    """The program of a stage; its last tensor leaves."""
    plans, last = plan_weights(nodes, config), nodes[-1].output
    steps = Scheduler(config, tensors, nodes, plans, {last}).run()
    return Program(
        "test", "test", "0" * 64, config, 100.0, tensors, list(nodes), setup_launch(nodes, plans, config),
        list(steps), {"x": tensors["x"].onnx_shape}, {last: tensors[last].onnx_shape},
    )  # fmt: skip


def operations(program: Program, *kinds: Operation) -> list[KernelOperation]:
    launches = [step for step in program.steps if isinstance(step, LaunchStep)]
    return [o for step in launches for o in step.operations if o.descriptor.operation in kinds]


def check(program: Program, samples: int = 2) -> None:
    """Every output is computed once, and plain integers that follow the descriptors give the emulator's values."""
    for node in program.nodes:
        assert isinstance(node, ArrayNode)
        count = np.zeros((node.window.output_height, node.window.output_width, node.channels), int)
        for tile in node.tiles:
            count[tile.y0 : tile.y1, tile.x0 : tile.x1 or None, tile.m0 : tile.m1] += 1
        assert (count == 1).all()
    rng = np.random.default_rng(5)
    x = rng.normal(size=(samples, *program.inputs["x"])) * (rng.random((samples, *program.inputs["x"])) < 0.5)
    expected = KernelDevice(program, PlainKernel(program.config), "plain").run({"x": x})
    found = Emulator(program).run({"x": x})
    for name, value in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], value)
    assert [layer.cycles for layer in found.layers] == [layer.cycles for layer in expected.layers]


# Descriptors by hand

SOURCE = Region("x", 10, 100, 13, 13, 5, 3, 1, 0, 11)
TARGET = Region("y", 200, 100, 15, 13, 7, 4, 2, 0, 11)


def described(engine: EngineName, tile: Tile, target: Region = TARGET, **fields: int) -> Descriptor:
    node, tensors = convolution(engine, **fields)
    place = Placement(node, tensors["x"], [SOURCE], target, tile, parameter_base=8)
    engine = engine_beside(node)
    assert engine is not None
    return engine.descriptor(SMALL, place)


def values(descriptor: Descriptor, *names: str) -> tuple[int, ...]:
    return tuple(getattr(descriptor, name) for name in names)


def test_a_tile_reads_the_rectangle_under_its_outputs() -> None:
    """Rows 4..7 and columns 5..9 of a 3 x 3 layer with a pad of 1 read rows 3..8 and columns 4..10. 11 banks."""
    d = described("zero_skip", Tile(4, 8, 4, 7, 5, 10))
    assert d.operation == Operation.ZERO_SKIP
    assert values(d, "input_height", "input_width", "pad_top", "pad_left") == (6, 7, 0, 0)
    # Pixel 3 * 13 + 4 = 43 = 3 * 11 + 10, three words each
    assert values(d, "input_word", "input_bank", "channel_words", "input_pixel_words") == (10 + 9, 10, 3, 3)
    assert values(d, "input_step_word", "input_step_bank") == (0, 1)
    assert values(d, "input_group_word", "input_group_bank") == (0, 4)
    assert values(d, "input_wrap_word", "input_wrap_bank") == (3, 2)
    assert values(d, "output_pixels", "output_width", "group_rows", "output_rows", "blocks") == (20, 5, 4, 3, 1)
    # Pixel 4 * 15 + 5 = 65 = 5 * 11 + 10, four words each, channel word 2
    assert values(d, "output_word", "output_bank", "output_pixel_words") == (200 + 20 + 2, 10, 4)
    assert values(d, "output_step_word", "output_step_bank") == (0, 1)
    assert values(d, "output_group_word", "output_group_bank") == (0, 9)
    assert values(d, "output_wrap_word", "output_wrap_bank", "write_slots") == (4, 4, 1)
    assert values(d, "parameter_base", "bias_exponent", "input_slot", "output_slot") == (8, -8, 1, 2)
    assert d.flags == Flag.BIAS | Flag.ROW_EXPONENTS


def test_padding_belongs_to_the_tiles_at_the_edge() -> None:
    """ZS Z4: a rectangle ends at the image; zeros above and left of it are counted."""
    first = described("zero_skip", Tile(0, 4, 0, 7, 0, 5))
    assert values(first, "input_height", "input_width", "pad_top", "pad_left") == (5, 6, 1, 1)
    assert values(first, "input_word", "input_bank", "blocks") == (10, 0, 2)
    last = described("zero_skip", Tile(8, 11, 0, 7, 10, 13))
    assert values(last, "input_height", "input_width", "pad_top", "pad_left") == (4, 4, 0, 0)


def test_columns_that_no_output_needs_are_not_read() -> None:
    """A stride of 2 without padding leaves the last row and column of a 10 x 14 image unread."""
    d = described("zero_skip", Tile(0, 4, 0, 7, 0, 6), size=(10, 14, 5), stride=2, pad=0)
    assert values(d, "input_height", "input_width") == (9, 13)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_kernel_that_is_smaller_than_its_padding_has_zeros_around_it(engine: EngineName) -> None:
    """Section 9: 1 x 1 weights in the middle of 3 x 3; a tile reads no more lines for the zeros."""
    kernel = {"kernel": 1, "pad": 1}
    d = described(engine, Tile(4, 8, 4, 7, 0, 15), **kernel)
    assert values(d, "kernel_height", "kernel_width", "pad_top", "pad_left") == (3, 3, 1, 2)
    assert values(d, "input_height", "input_width") == (4, 13)
    # A row of zeros alone: one row of the image, which the zeros around the weights meet.
    first = described(engine, Tile(0, 1, 0, 7, 0, 15), **kernel)
    assert values(first, "input_height", "pad_top", "input_word", "input_bank") == (1, 2, 10, 0)
    last = described(engine, Tile(12, 13, 0, 7, 0, 15), **kernel)
    assert values(last, "input_height", "pad_top") == (1, 0)
    node, tensors = convolution(engine, **kernel)
    weights = embedded_weights(node, tensors["x"], 2, 4)
    assert node.weights is not None
    np.testing.assert_array_equal(weights[:, 1:2, 1:2], node.weights[2:4])
    assert np.count_nonzero(weights) == np.count_nonzero(node.weights[2:4])


def test_zeros_are_where_padding_reaches_beyond_a_kernel() -> None:
    """Below and right of the weights for padding above and left, above and left of them for padding below and right."""
    window = Window(2, 1, pad_top=2, pad_left=0, output_height=12, output_width=15)
    spec = image("x", 11, 13, 5)
    assert padding(window, spec) == Lines(2, 0, 0, 2)
    assert kernel_margins(window, spec) == Lines(0, 1, 2, 0)
    assert embedded_size(window, spec) == (3, 3)


def test_a_strip_has_all_columns_and_blocks_of_outputs() -> None:
    d = described("sparse_cluster", Tile(3, 7, 0, 7))
    assert d.operation == Operation.SPARSE
    assert values(d, "input_height", "input_width", "pad_top", "pad_left") == (6, 13, 0, 1)
    assert values(d, "output_pixels", "output_width", "group_rows", "blocks") == (52, 13, 4, 2)
    assert values(d, "output_group_word", "output_group_bank", "count_step") == (0, 3, 1)


@pytest.mark.parametrize(("pitch", "slots"), [(13, 3), (14, 1), (15, 1), (19, 1), (20, 3), (22, 3), (23, 3), (24, 3)])
def test_rows_of_a_block_that_meet_in_a_bank_are_written_one_after_the_other(pitch: int, slots: int) -> None:
    """Section 7: of 11 banks rows of a 3 x 3 block begin 0, p and 2 p further; they need three banks each."""
    d = described("sparse_cluster", Tile(0, 11, 0, 7), replace(TARGET, pitch=pitch))
    assert d.write_slots == slots


def test_the_pitch_of_a_result_lets_blocks_leave_at_once() -> None:
    node, tensors = convolution("sparse_cluster")
    pitches = PitchChoice(SMALL, tensors, [node])
    assert pitches.of("x") == 13
    assert pitches.of("y") == 14


@pytest.mark.parametrize(("channels", "step"), [(1, 1), (8, 1), (9, 2), (16, 2), (64, 8)])
def test_about_four_channel_words_are_counted(channels: int, step: int) -> None:
    """SC R131"""
    source = replace(SOURCE, channels=channels, pixel_words=-(-channels // 2))
    node, tensors = convolution("sparse_cluster", (11, 13, channels))
    place = Placement(node, tensors["x"], [source], TARGET, Tile(0, 4, 0, 7))
    assert cluster_descriptor(SMALL, place).count_step == step
    alone = replace(SMALL, beside=(ClusterNumbers(grid_rows=1, grid_columns=1),))
    assert cluster_descriptor(alone, place).count_step == 0


# Tiles and strips


def test_tiles_are_nearly_equal() -> None:
    """ZS R17, Z2: 11 x 13 outputs in tiles of at most 4 x 5."""
    node, tensors = convolution("zero_skip")
    tiles = zero_skip_tiles(node, tensors["x"], SMALL, Tile(0, 11, 0, 7))
    assert [(tile.y0, tile.y1) for tile in tiles[::3]] == [(0, 4), (4, 8), (8, 11)]
    assert [(tile.x0, tile.x1) for tile in tiles[:3]] == [(0, 5), (5, 10), (10, 13)]
    assert len(tiles) == 9


def test_tiles_of_several_steps_end_where_a_step_ends() -> None:
    """56 columns in tiles of 32 at 8 lanes: 7 steps a row, as 4 and 3; two tiles of 28 would take 8."""
    build = ZeroSkipNumbers(tile_height=32, tile_width=32, lanes=8, rows_parallel=2)
    node, tensors = convolution("zero_skip", (34, 56, 2))
    tiles = zero_skip_tiles(node, tensors["x"], replace(SMALL, columns=8, beside=(build,)), Tile(0, 34, 0, 7))
    assert [(tile.y0, tile.y1, tile.x0, tile.x1) for tile in tiles] == [
        (0, 18, 0, 32), (0, 18, 32, 56), (18, 34, 0, 32), (18, 34, 32, 56)
    ]  # fmt: skip


def test_strips_leave_their_pieces_room_to_grow() -> None:
    """SC R22, R155: 12 x 12 inputs in 2 x 2 pieces of 6 x 6; a unit holds 7 x 7 at most, 1.17 times as many lines."""
    node, tensors = convolution("sparse_cluster", (12, 12, 2))
    build = ClusterNumbers(grid_rows=2, grid_columns=2, accumulator_words=16, memory_words=64, load_pixels=4)
    assert build.piece_fits(6, 6, 3, 3)
    strips = cluster_strips(node.window, tensors["x"], build, 0, 12)
    assert strips == [(0, 4), (4, 8), (8, 12)]
    # A strip reads up to 6 rows; two strips, which read 7 rows each, could not grow as much.
    assert piece_limits(build, 6, 12, (3, 3)) == (5, 11)
    rows, columns = piece_limits(build, 7, 12, (3, 3)) or (0, 0)
    assert min(rows / 4, columns / 6) < 1.4


def test_strips_that_cannot_grow_are_as_few_as_fit() -> None:
    node, tensors = convolution("sparse_cluster", (9, 12, 2))
    build = ClusterNumbers(grid_rows=1, grid_columns=1, accumulator_words=30, memory_words=64, load_pixels=4)
    assert build.grid_words(12, 3) == 6
    # Five words of rows: 9 input rows touch 5, if the strip has up to 9 of them
    assert build.grid_words(9, 3) == 5
    assert cluster_strips(node.window, tensors["x"], build, 0, 9) == [(0, 9)]
    assert cluster_strips(node.window, tensors["x"], replace(build, accumulator_words=24), 0, 9) == [(0, 5), (5, 9)]


# Schedules


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("words", [512, 100, 60])
@pytest.mark.parametrize(
    ("kernel", "stride", "pad"), [(3, 1, 1), (1, 1, 0), (3, 2, 1), (2, 1, 1), (1, 1, 1), (1, 2, 1)]
)
def test_descriptors_of_any_memory_give_the_layer(
    engine: EngineName, words: int, kernel: int, stride: int, pad: int
) -> None:
    """ZS R15, SC R5, R34: whole images, strips that memory dictates, tiles of those."""
    node, tensors = convolution(engine, kernel=kernel, stride=stride, pad=pad)
    program = scheduled(replace(SMALL, activation_words=words), tensors, [node])
    check(program)
    strips = len(operations(program, Operation.STORE))
    assert strips > 1 if words == 60 and stride == 1 else strips >= 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("words", [512, 60])
def test_a_kernel_with_zeros_around_it_gives_the_bits_of_the_array(engine: EngineName, words: int) -> None:
    """ZS R15, SC R34: padding beyond the kernel, also where strips lie in zeros alone."""
    config, rng = replace(SMALL, activation_words=words), np.random.default_rng(0)
    x = np.float32(rng.normal(size=(2, 5, 11, 13)))
    found = []
    for name in (engine, "systolic_array"):
        node, tensors = convolution(name, kernel=1, pad=1)
        found.append(Emulator(scheduled(config, tensors, [node])).run({"x": x}).outputs["y"])
        kernel = KernelDevice(scheduled(config, tensors, [node]), PlainKernel(config), "plain")
        found.append(kernel.run({"x": x}).outputs["y"])
    assert found[0].any()
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_follow_each_other_on_one_memory(engine: EngineName) -> None:
    """A tensor that one engine writes is what another one reads: no load, no store between them."""
    first, tensors = convolution(engine)
    others = []
    for number, other in enumerate(("systolic_array", "sparse_cluster", "zero_skip")):
        node, more = convolution(other, (11, 13, 7), channels=7)
        node.name, node.inputs, node.output = f"layer{number}", ("y" if not number else f"t{number - 1}",), f"t{number}"
        others.append(node)
        tensors[node.output] = replace(more["y"], name=node.output)
    program = scheduled(replace(SMALL, activation_words=2048), tensors, [first, *others])
    assert len(operations(program, Operation.LOAD)) == len(operations(program, Operation.STORE)) == 1
    check(program)


@pytest.mark.parametrize("engine", ENGINES)
def test_groups_and_parts_of_a_concatenation(engine: EngineName) -> None:
    """ZS R12, SC R7: weights of other groups are zero; results begin at their channel of the tensor."""
    node, tensors = convolution(engine, (11, 13, 6), channels=6)
    assert node.weights is not None
    node.groups, node.weights = 3, node.weights[..., :2]
    second, _ = convolution(engine, (11, 13, 6), channels=3)
    second.name, second.channel_offset = "second", 6
    tensors["y"] = image("y", 11, 13, 9)
    check(scheduled(SMALL, tensors, [node, second]))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("policy", "passes"), [(Policy.STATIC, 1), (Policy.MAX, 2), (Policy.ROLLING_MAX, 2)])
def test_measuring_passes_repeat_all_tiles(engine: EngineName, policy: Policy, passes: int) -> None:
    """BFP R24, R38: every pass has its first descriptor, the computing one its last; kernels come with each."""
    node, tensors = convolution(engine, policy=PolicySpec(policy, window=3))
    program = scheduled(SMALL, tensors, [node])
    check(program)
    computing = operations(program, Operation.ZERO_SKIP, Operation.SPARSE)
    assert len(computing) == passes * len(node.tiles)
    flags = [operation.descriptor.flags for operation in computing]
    assert [bool(flag & Flag.FIRST) for flag in flags].count(True) == passes
    assert [bool(flag & Flag.LAST) for flag in flags] == [False] * (len(flags) - 1) + [True]
    assert Counter(bool(flag & Flag.MEASURE) for flag in flags)[True] == (passes - 1) * len(node.tiles)
    assert all(operation.weights and operation.clocks for operation in computing)
    first_only = [operation.first_only for operation in computing]
    assert any(first_only) == (policy == Policy.ROLLING_MAX)


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_need_rows_of_parameters_only(engine: EngineName) -> None:
    """Rows are padded to whole words of channels, not to the rows of the array."""
    node, _ = convolution(engine, channels=5)
    plan = plan_weights([node], SMALL)["layer"]
    assert [(tile.words, tile.rows) for tile in plan.tiles] == [(0, 6)]
    (operation,) = setup_launch([node], {"layer": plan}, SMALL).operations
    assert (operation.descriptor.weight_words, operation.descriptor.parameter_rows) == (0, 6)
    assert len(operation.weights) == 6 * SMALL.weight_stream_bits // 8


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("rows", "cuts"), [(64, [0]), (6, [0, 4, 8]), (3, [0, 2, 4, 6, 8])])
def test_parameter_rows_that_do_not_fit_are_loaded_in_parts(engine: EngineName, rows: int, cuts: list[int]) -> None:
    """Whole groups of kernels where there is room for one, else whole words of channels."""
    node, tensors = convolution(engine, channels=9)
    program = scheduled(replace(SMALL, parameter_rows=rows), tensors, [node])
    assert sorted({tile.m0 for tile in node.tiles}) == cuts
    for operation in [*program.setup.operations, *operations(program, Operation.WEIGHTS)]:
        assert operation.descriptor.parameter_base + operation.descriptor.parameter_rows <= rows
    check(program, samples=1)


@pytest.mark.parametrize("rows", [4, 5, 6, 7, 9, 12])
def test_layers_of_the_array_keep_room_for_a_block_of_rows(rows: int) -> None:
    """Rows of engines are fewer than those of a block: what they leave must hold one."""
    small, tensors = convolution("zero_skip", channels=2)
    large, more = convolution("systolic_array", (11, 13, 2), channels=9)
    large.name, large.inputs, large.output = "large", ("y",), "z"
    tensors["z"] = replace(more["y"], name="z")
    check(scheduled(replace(SMALL, parameter_rows=rows), tensors, [small, large]), samples=1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("given", ["node", "operation"])
def test_a_program_file_for_an_engine_that_its_accelerator_lacks_is_refused(
    engine: EngineName, given: str, tmp_path: Path
) -> None:
    """A damaged file: the layer or an operation names an engine, the numbers of the kernel hold none."""
    node, tensors = convolution(engine)
    program = scheduled(SMALL, tensors, [node])
    program.config = replace(SMALL, beside=())
    if given == "operation":
        node.engine = "systolic_array"
    save_program(program, tmp_path / "net.program")
    with pytest.raises(ProgramError, match=f"layer {node.name}: the accelerator has no engine '{engine}'"):
        load_program(tmp_path / "net.program")


def test_kernels_of_all_tiles_are_one_member_of_a_program_file(tmp_path: Path) -> None:
    node, tensors = convolution("zero_skip")
    program = scheduled(SMALL, tensors, [node])
    save_program(program, tmp_path / "net.program")
    loaded = load_program(tmp_path / "net.program")
    tiles = operations(loaded, Operation.ZERO_SKIP)
    assert len(tiles) == 9
    assert len({id(operation.weights) for operation in tiles}) == 1
    assert [operation.clocks for operation in tiles] == [o.clocks for o in operations(program, Operation.ZERO_SKIP)]
    check(loaded, samples=1)
