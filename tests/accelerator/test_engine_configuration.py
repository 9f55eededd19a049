"""Accelerators with engines beside the array: files, refusals, rendered constants, overlays, the virtual board."""

from __future__ import annotations

import importlib.resources
import itertools
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_layers import gemm, image
from engine_files import FILE
from small_networks import Network
from vendor_scripts import PATHS

import bfpga
from bfpga.accelerator.loader import Accelerator, accelerator_names, load_accelerator
from bfpga.compiler.compiler import compile_network
from bfpga.compiler.options import CompileOptions
from bfpga.contract.program import ArrayNode, Window
from bfpga.engines.configurations import config_from_dict, config_to_dict
from bfpga.engines.registry import engine_named
from bfpga.engines.sparse_cluster.numbers import ClusterNumbers
from bfpga.engines.zero_skip.numbers import ZeroSkipNumbers
from bfpga.errors import ConfigurationError
from bfpga.vendor.block_design import block_design
from bfpga.vendor.build_scripts import render_scripts
from bfpga.vendor.manifest import read_manifest
from bfpga.vendor.overlay_files import write_overlay
from bfpga.vendor.render import render_kernel, write_project
from bfpga.vendor.tcl_check import check_scripts

ZERO_SKIP = ZeroSkipNumbers(4, 10, 9, 2, 4, 3, 2, 1, "lut", 4)
CLUSTER = ClusterNumbers(2, 2, 3, 6, 32, 48, "lut", 8)
SEVERAL = [name for name in accelerator_names() if len(load_accelerator(name).systolic.engines) > 1]


#: What is changed in the file, the key that is wrong then, and a part of the error that says what would be right.
REFUSED: list[tuple[list[tuple[str, str]], str, str]] = [
    ([("kind: zero_skip", "kind: zero_skips")], "engines[1].kind", "did you mean `zero_skip`?"),
    ([("load_pixels: 8", "load_pixels: 6")], "engines[2].load_pixels", "must be one of 2, 4, 8, 16, 32"),
    ([("kernel: [3, 2]", "kernel: [3]")], "engines[1].kernel", "two elements"),
    ([("tile: [4, 10]", "tile: [4, 300]")], "engines[1].tile[1]", "1..256"),
    ([("kernels_in_flight: 4", "kernels: 4")], "engines[1].kernels", "did you mean `kernel`?"),
    ([("variant: E", "variant: A")], "engines[2].variant", "is A; must be E: variants A to D are models and C++ units"),
    ([("variant: E", "variant: F")], "engines[2].variant", "must be one of A, B, C, D, E"),
    ([("multiplier: lut", "multiplier: dsp_packed")], "engines[2].multiplier", "must be one of dsp, lut"),
    ([("kernels_in_flight: 6", "kernels_in_flight: 7")], "engines[2].kernels_in_flight",
     "is 7; must be a multiple of the systolic_array's lanes = 2"),
    ([("kernels_in_flight: 4", "kernels_in_flight: 3")], "engines[1].kernels_in_flight",
     "is 3; must be a multiple of the systolic_array's lanes = 2"),
    ([("lanes: 9", "lanes: 8")], "engines[1].lanes", "is 8; must be at least the systolic_array's 9 columns"),
    ([("rows_parallel: 2", "rows_parallel: 5")], "engines[1].rows_parallel", "must be at most the 4 rows of a"),
    ([("tile: [4, 10]", "tile: [64, 1]"), ("rows_parallel: 2", "rows_parallel: 33"), ("stride: 1", "stride: 2")],
     "engines[1].rows_parallel", "is 33; with a stride of 2 at most 32 rows are read at once"),
    ([("columns: 9", "columns: 8")], "engines[0].columns",
     "is 8; must be at least 9, one for each sum of a sparse_cluster's block"),
    ([("grid: [2, 2]", "grid: [8, 5]")], "engines[2].grid", "is 8 x 5, 40 units; at most 32 are possible"),
    ([("accumulator_bits: 28", "accumulator_bits: 19")], "engines[0].accumulator_bits",
     "is 19; 9 products of the sparse_cluster's kernel need 20"),
    ([("accumulator_bits: 28", "accumulator_bits: 50")], "engines[0].accumulator_bits",
     "is 50; must be 16..48 beside zero_skip and sparse_cluster"),
    ([("{profile: bfp8}", "{mantissa_bits: 18}"), ("multiplier: dsp_packed", "multiplier: dsp"),
      ("accumulator_bits: 28", "accumulator_bits: 48")], "engines[0].format",
     "has mantissas of 18 bits; beside zero_skip and sparse_cluster at most 16"),
    ([("multiplier: dsp_packed", "multiplier: shift")], "engines[0].multiplier", "must be dsp or dsp_packed"),
    ([("{profile: bfp8}", "{mantissa_bits: 9}"), ("multiplier: dsp_packed", "multiplier: dsp"),
      ("multiplier: lut\n    load_pixels: 4", "multiplier: dsp_packed\n    load_pixels: 4")],
     "engines[1].multiplier", "is dsp_packed, which needs mantissas of 8 bits or less, not 9; must be dsp"),
]  # fmt: skip


def write(folder: Path, text: str) -> Path:
    path = folder / "accelerator.yaml"
    path.write_text(text)
    return path


def edited(*changes: tuple[str, str]) -> str:
    """The file with each `old` once replaced: the last one, because the engines stand at the end."""
    text = FILE
    for old, new in changes:
        before, found, behind = text.rpartition(old)
        assert found, old
        text = before + new + behind
    return text


@pytest.fixture(scope="module")
def accelerator(tmp_path_factory: pytest.TempPathFactory) -> Accelerator:
    return load_accelerator(write(tmp_path_factory.mktemp("files"), FILE))


# Files that are read


def test_every_number_of_the_engines_reaches_the_configuration(accelerator: Accelerator) -> None:
    """SC R154, R155, ZS R52: engines are configured by numbers of the accelerator's file."""
    config = accelerator.systolic
    assert config.engines == ("systolic_array", "zero_skip", "sparse_cluster")
    assert (config.numbers_of(ZeroSkipNumbers), config.numbers_of(ClusterNumbers)) == (ZERO_SKIP, CLUSTER)
    assert config_from_dict(config_to_dict(config)) == config


def test_sections_stand_in_any_order(tmp_path: Path, accelerator: Accelerator) -> None:
    head, array, skip, cluster = sections()
    assert load_accelerator(write(tmp_path, head + cluster + skip + array)).digest == accelerator.digest


def test_sections_without_numbers_have_the_documented_defaults(tmp_path: Path) -> None:
    head, array, *_ = sections()
    text = head + array + "  - kind: sparse_cluster\n  - kind: zero_skip\n"
    config = load_accelerator(write(tmp_path, text.replace("board: pynq_z2", "board: zcu104"))).systolic
    assert config.numbers_of(ClusterNumbers) == ClusterNumbers(2, 4, 3, 8, 128, 256, "dsp", 8)
    assert config.numbers_of(ZeroSkipNumbers) == ZeroSkipNumbers(32, 32, 32, 1, 16, 3, 3, 2, "dsp_packed", 8)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tile: [4, 10]", "tile: [4, 11]"), ("rows_parallel: 2", "rows_parallel: 1"), ("stride: 1", "stride: 2"),
        ("kernel: [3, 2]", "kernel: [3, 3]"), ("grid: [2, 2]", "grid: [1, 2]"), ("multiplier: lut", "multiplier: dsp"),
        ("accumulator_words: 32", "accumulator_words: 33"), ("memory_words: 48", "memory_words: 50"),
    ],
)  # fmt: skip
def test_every_number_of_an_engine_shapes_the_digest(
    tmp_path: Path, accelerator: Accelerator, old: str, new: str
) -> None:
    """A program for another engine must not run."""
    assert load_accelerator(write(tmp_path, edited((old, new)))).digest != accelerator.digest


# Files that are refused: one error with file, line, key, what is wrong and what would be right


@pytest.mark.parametrize(("changes", "place", "text"), REFUSED)
def test_a_wrong_number_is_one_error_with_its_place_and_what_would_be_right(
    tmp_path: Path, changes: list[tuple[str, str]], place: str, text: str
) -> None:
    file = edited(*changes)
    (finding,) = findings(write(tmp_path, file))
    number, where, _ = re.split(r"line (\d+), (\S+): ", finding)[1:]
    assert where == place
    assert re.split(r"[.\[]", place.rstrip("]"))[2] in file.splitlines()[int(number) - 1]
    assert text in finding


def findings(path: Path) -> list[str]:
    """Lines of the error about the file at ``path``."""
    with pytest.raises(ConfigurationError) as caught:
        load_accelerator(path)
    head, *lines = str(caught.value).splitlines()
    assert head == f"{path} is not an accelerator:"
    return lines


def sections() -> list[str]:
    """Head of the file, then the sections of its engines."""
    return re.split(r"(?=^  - kind)", FILE, flags=re.MULTILINE)


def test_every_accelerator_has_an_array(tmp_path: Path) -> None:
    head, _, *beside = sections()
    (finding,) = findings(write(tmp_path, head + "".join(beside)))
    assert "engines: hold no systolic_array; every accelerator needs one: it adds, pools" in finding


@pytest.mark.parametrize(("number", "kind"), [(1, "systolic_array"), (2, "zero_skip"), (3, "sparse_cluster")])
def test_no_kind_of_engine_comes_twice(tmp_path: Path, number: int, kind: str) -> None:
    head, *engines = sections()
    chosen = sorted({engines[0], engines[number - 1]}, key=engines.index)
    (finding,) = findings(write(tmp_path, head + "".join([*chosen, engines[number - 1]])))
    first = chosen.index(engines[number - 1])
    assert f"is a second {kind}; the first is engines[{first}], one is possible" in finding
    assert f"engines[{len(chosen)}].kind" in finding


def test_wrong_numbers_of_several_engines_come_in_one_message(tmp_path: Path) -> None:
    changes = [("kernels_in_flight: 4", "kernels_in_flight: 5"), ("kernels_in_flight: 6", "kernels_in_flight: 7")]
    assert [re.findall(r"engines\[\d\]", line) for line in findings(write(tmp_path, edited(*changes)))] == [
        ["engines[1]"], ["engines[2]"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "excess"),
    [
        ("accumulator_words: 32", "accumulator_words: 2048", "block memories"),
        ("grid: [2, 2]\n    kernel: 3", "grid: [4, 8]\n    kernel: 3", "LUTs"),
    ],
)
def test_engines_beyond_the_board_are_refused_with_what_to_make_smaller(
    tmp_path: Path, old: str, new: str, excess: str
) -> None:
    """SC R154: the array may shrink to the columns that the cluster needs as ports, and no further."""
    (finding,) = findings(write(tmp_path, edited((old, new))))
    assert "engines[0].columns" in finding
    assert excess in finding
    assert "not even 9 columns fit beside zero_skip and sparse_cluster: make zero_skip and sparse_cluster," in finding


def test_fewer_columns_are_named_where_they_make_room_for_the_engines(tmp_path: Path) -> None:
    changes = [("columns: 9", "columns: 40"), ("rows: 4\n", "rows: 8\n"), ("lanes: 9", "lanes: 40")]
    text = edited(*changes)
    (finding,) = findings(write(tmp_path, text))
    fitting = re.search(r"at most (\d+) columns fit beside zero_skip and sparse_cluster", finding)
    assert fitting is not None, finding
    best = int(fitting[1])
    assert load_accelerator(write(tmp_path, text.replace("columns: 40", f"columns: {best}"))).systolic.columns == best
    assert findings(write(tmp_path, text.replace("columns: 40", f"columns: {best + 1}")))


# The ready ones


def test_three_ready_accelerators_have_several_engines() -> None:
    engines = {name: load_accelerator(name).systolic.engines[1:] for name in SEVERAL}
    assert engines == {
        "pynq_z2_sparse_loop": ("sparse_cluster",),
        "pynq_z2_zero_skip_loop": ("zero_skip",),
        "zcu104_hetero_loop": ("zero_skip", "sparse_cluster"),
    }


def test_the_sparse_accelerator_has_8_units_of_9_multipliers() -> None:
    """SC 2.2: m units of p multipliers, one for each weight of a 3x3 kernel."""
    build = load_accelerator("pynq_z2_sparse_loop").systolic.numbers_of(ClusterNumbers)
    assert (build.units, build.lanes, build.kernel) == (8, 9, 3)


@pytest.mark.parametrize("name", SEVERAL)
def test_descriptions_of_the_ready_accelerators_name_their_multipliers(name: str) -> None:
    accelerator = load_accelerator(name)
    config = accelerator.systolic
    counts = [build.multipliers for build in config.beside]
    for count in [config.columns * config.rows * config.lanes, *counts]:
        assert re.search(rf"\b{count}\b", accelerator.description)


@pytest.mark.parametrize("name", SEVERAL)
def test_ready_accelerators_and_their_overlays_are_in_the_package(name: str) -> None:
    assert (importlib.resources.files("bfpga.configs") / "accelerators" / f"{name}.yaml").is_file()
    assert (importlib.resources.files("bfpga.overlays") / name / "overlay.yaml").is_file()


@pytest.mark.parametrize("name", SEVERAL)
def test_both_engines_take_3x3_and_1x1_convolutions_of_real_maps(name: str) -> None:
    """SC R7, ZS R12: the common layers of 56 x 56, 28 x 28 and 14 x 14 maps have a choice."""
    config = load_accelerator(name).systolic
    for engine in config.engines[1:]:
        for size, kernel in itertools.product((56, 28, 14), (3, 1)):
            pad = kernel // 2
            window = Window(kernel, kernel, 1, 1, pad, pad, 1, 1, size, size)
            node = gemm(np.ones((8, kernel, kernel, 16)), window)
            assert engine_named(engine).refusal(node, image("x", size, size, 16), config) == ""


# What is rendered


def constants(accelerator: Accelerator) -> dict[str, str]:
    """Constants and types of the rendered configuration."""
    text = render_kernel(accelerator.name, accelerator.digest, accelerator.systolic)["src/config.hpp"]
    values = dict(re.findall(r"static constexpr \w+ (\w+) = (\w+);", text))
    return values | dict(re.findall(r"using (\w+) = ([^;]+);", text))


def test_numbers_of_the_engines_are_constants_of_the_kernel(accelerator: Accelerator) -> None:
    """SC R154, R155, ZS R52."""
    found = constants(accelerator)
    for prefix, build in (("zero_skip", ZERO_SKIP), ("cluster", CLUSTER)):
        for key, value in asdict(build).items():
            if key != "multiplier":
                assert found[f"{prefix}_{key}"] == str(value), key
    assert found["ZeroSkip"].startswith("bfpga::ZeroSkipOperation<")
    assert found["SparseCluster"].startswith("bfpga::SparseClusterOperation<")


def test_an_array_alone_has_no_constant_of_another_engine() -> None:
    found = constants(load_accelerator("pynq_z2_dense"))
    assert (found["ZeroSkip"], found["SparseCluster"]) == ("bfpga::AbsentEngine", "bfpga::AbsentEngine")
    assert [name for name in found if name.startswith(("zero_skip", "cluster"))] == []


def test_a_project_holds_every_header_that_its_sources_include(accelerator: Accelerator, tmp_path: Path) -> None:
    """The scripts give the compiler `include` and `src`; nothing is looked for elsewhere."""
    project = write_project(accelerator.name, accelerator.digest, accelerator.systolic, tmp_path / "project")
    seen: set[Path] = set()
    todo = [project / "src" / "top.cpp"]
    while todo:
        source = todo.pop()
        seen.add(source)
        for name in re.findall(r'#include "([^"]+)"', source.read_text()):
            places = [folder / name for folder in (source.parent, project / "include", project / "src")]
            found = next((place.resolve() for place in places if place.is_file()), None)
            assert found is not None, f"{source} includes {name}"
            if found not in seen:
                todo.append(found)
    names = {f"{path.parent.name}/{path.name}" for path in seen}
    assert {"zero_skip/operation.hpp", "sparse_cluster/operation.hpp", "memory/segment_reader.hpp"} <= names


# Overlays


def test_engines_need_no_hardware_outside_the_kernel(accelerator: Accelerator) -> None:
    """docs/engines.md, section 1: no stream, channel, address or register of their own."""
    alone = replace(accelerator, systolic=replace(accelerator.systolic, beside=()))
    several, one = block_design(accelerator), block_design(alone)
    for part in ("links", "nets", "segments"):
        assert getattr(several, part) == getattr(one, part), part
    assert [cell.name for cell in several.cells] == [cell.name for cell in one.cells]


def test_scripts_of_an_accelerator_with_three_engines_pass_the_check(accelerator: Accelerator) -> None:
    design = block_design(accelerator)
    assert check_scripts(design, render_scripts(design, PATHS, 1)) == []


def test_a_manifest_holds_the_numbers_of_every_engine(accelerator: Accelerator, tmp_path: Path) -> None:
    """A board drives what the manifest describes: it gives the same configuration back."""
    write_overlay(accelerator, tmp_path)
    manifest = read_manifest(tmp_path / "overlay.yaml")
    assert manifest.accelerator.digest == accelerator.digest
    assert manifest.configuration() == accelerator.systolic


@pytest.mark.board
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_network_crosses_three_engines_on_the_virtual_board(accelerator: Accelerator, tmp_path: Path) -> None:
    """SC R10, ZS R53: one start, a layer on each engine; outputs and clocks are those of the emulator."""
    pytest.importorskip("pynq")
    network = Network(3, 8, 8)
    for inputs, kernel, (before, behind) in ((3, 3, (1, 1)), (4, 2, (0, 1)), (4, 1, (0, 0))):
        network.conv(4, inputs, kernel, pads=[before, before, behind, behind])
        network.add("Relu")
    path = tmp_path / "network.onnx"
    path.write_bytes(network.model().SerializeToString())
    engines: dict[str, dict[str, Any]] = {
        f"Conv_{2 * number}": {"engine": engine} for number, engine in enumerate(accelerator.systolic.engines[::-1])
    }
    samples = network.samples(3)
    program = compile_network(path, accelerator, samples, CompileOptions(layers=engines))
    assert [node.engine for node in program.nodes if isinstance(node, ArrayNode)] == [*accelerator.systolic.engines][
        ::-1
    ]
    write_overlay(accelerator, tmp_path / "overlay")
    with bfpga.load(tmp_path / "overlay", "virtual") as overlay:
        found = bfpga.run(program, samples, overlay.open(program))
    expected = bfpga.run(program, samples, "emulator")
    for name, values in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], values)
    assert found.cycles == expected.cycles
