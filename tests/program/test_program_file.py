"""Program files: complete or absent, read without pickle, refused with a reason."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from small_networks import WIDE, Network, compiled

from bfpga.compiler.options import CompileOptions
from bfpga.contract.program import Program
from bfpga.devices.emulator import Emulator
from bfpga.errors import ProgramError
from bfpga.program import file as program_file
from bfpga.program.file import HEADER, content_digest, load_program, save_program


def network() -> Network:
    """Every kind of node and step."""
    result = Network(4, 8)
    query = result.add("MatMul", "x", result.weights(8, 6))
    turned = result.add("Transpose", query, perm=[0, 2, 1])
    result.add("Softmax", result.add("MatMul", query, turned), axis=-1)
    result.add("MatMul", result.last, result.weights(4, 5))
    return result


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return compiled(network(), tmp_path, WIDE, CompileOptions(policy="stats"))


def assert_same(first: Any, second: Any) -> None:
    assert type(first) is type(second) or (isinstance(first, int) and isinstance(second, int))
    if isinstance(first, np.ndarray):
        assert first.dtype == second.dtype
        np.testing.assert_array_equal(first, second)
    elif is_dataclass(first):
        for item in fields(first):
            assert_same(getattr(first, item.name), getattr(second, item.name))
    elif isinstance(first, dict):
        assert list(first) == list(second)
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, list | tuple):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    else:
        assert first == second


def test_a_program_comes_back_as_it_was(program: Program, tmp_path: Path) -> None:
    save_program(program, tmp_path / "net.program")
    loaded = load_program(tmp_path / "net.program", "0" * 64)
    assert_same(program, loaded)
    samples = network().samples()
    for expected, found in zip(
        Emulator(program).run(samples).outputs.values(), Emulator(loaded).run(samples).outputs.values(), strict=True
    ):
        np.testing.assert_array_equal(expected, found)


def test_the_same_program_gives_the_same_file(program: Program, tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_program(program, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_program_of_another_accelerator_is_refused(program: Program, tmp_path: Path) -> None:
    save_program(program, tmp_path / "net.program")
    with pytest.raises(ProgramError, match="compiled for accelerator test"):
        load_program(tmp_path / "net.program", "other")


@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, 0.99])
def test_a_truncated_file_is_refused(program: Program, tmp_path: Path, kept: float) -> None:
    path = tmp_path / "net.program"
    save_program(program, path)
    data = path.read_bytes()
    path.write_bytes(data[: int(kept if kept >= 1 else kept * len(data))])
    with pytest.raises(ProgramError, match="not a program file"):
        load_program(path)


def rewrite(path: Path, change: Any, signed: bool = True) -> None:
    """Change a file; signed: with the digest of what it holds then."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(parts.pop(HEADER))
    change(header, parts)
    if signed:
        header["content"] = content_digest(header, parts.items())
    parts[HEADER] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header, parts: header.update(version=99), "version 99"),
        (lambda header, parts: header.update(magic="x"), "not a program"),
        (lambda header, parts: header.pop("program"), "damaged"),
        (lambda header, parts: header["program"].pop("nodes"), "damaged"),
        (lambda header, parts: header["program"].update(surplus=1), "damaged"),
        (lambda header, parts: header["program"].update(clock_mhz="fast"), "damaged"),
        (lambda header, parts: header["program"]["nodes"][0].update(type="Program"), "damaged"),
        (lambda header, parts: parts.pop(next(name for name in parts if name.endswith("npy"))), "damaged"),
    ],
)
def test_a_file_with_wrong_contents_is_refused(program: Program, tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "net.program"
    save_program(program, path)
    rewrite(path, change)
    with pytest.raises(ProgramError, match=message):
        load_program(path)


def test_arrays_of_objects_are_never_unpickled(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "net.program"
    save_program(program, path)
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    objects = (tmp_path / "objects.npy").read_bytes()
    rewrite(path, lambda header, parts: parts.update({n: objects for n in parts if n.endswith("npy")}))
    with pytest.raises(ProgramError, match="damaged"):
        load_program(path)


def test_a_missing_file_or_folder_is_an_error_without_traces(program: Program, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="cannot read"):
        load_program(tmp_path / "none")
    with pytest.raises(ProgramError, match="cannot write"):
        save_program(program, tmp_path / "no folder" / "net.program")
    folder = tmp_path / "folder"
    (folder / "net.program").mkdir(parents=True)
    with pytest.raises(ProgramError, match="cannot write"):
        save_program(program, folder / "net.program")
    assert [item.name for item in folder.iterdir()] == ["net.program"]


def test_array_types_that_are_aliases_are_read_as_arrays() -> None:
    """numpy 2.5 declares `NDArray` with the `type` statement of Python 3.12."""
    extensions = pytest.importorskip("typing_extensions")
    number = TypeVar("number")
    alias = extensions.TypeAliasType("alias", np.ndarray[Any, np.dtype[Any]], type_params=(number,))
    stream = io.BytesIO()
    np.save(stream, np.arange(3))
    for hint in (alias[np.int64], alias[np.int64] | None):
        np.testing.assert_array_equal(program_file._value(hint, "0.npy", {"0.npy": stream.getvalue()}), np.arange(3))


def weights_of(parts: dict[str, bytes]) -> str:
    return max((name for name in parts if name.endswith("npy")), key=lambda name: len(parts[name]))


@pytest.mark.parametrize(
    "change",
    [
        lambda header, parts: header["program"]["nodes"][0].update(bias_exponent=3),
        lambda header, parts: header["program"]["nodes"][0]["policy"].update(exponent=9),
        lambda header, parts: header["program"]["steps"][0]["operations"].reverse(),
        lambda header, parts: header["program"]["tensors"]["x"].update(input_exponent=2),
        lambda header, parts: header["program"].update(clock_mhz=1.0),
        lambda header, parts: parts.update({weights_of(parts): parts[weights_of(parts)][:-1] + b"\7"}),
        lambda header, parts: parts.update({"more.bin": b""}),
    ],
)
def test_one_digest_covers_nodes_operations_and_arrays(program: Program, tmp_path: Path, change: Any) -> None:
    """Else emulator and kernel would compute other networks."""
    path = tmp_path / "net.program"
    save_program(program, path)
    rewrite(path, change, signed=False)
    with pytest.raises(ProgramError, match=r"it does not hold what its digest says"):
        load_program(path)


def test_a_program_file_of_an_earlier_version_is_refused_with_what_to_do(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "net.program"
    save_program(program, path)

    def earlier(header: dict[str, Any], parts: dict[str, bytes]) -> None:
        header["version"] = 7
        del header["content"]

    rewrite(path, earlier, signed=False)
    with pytest.raises(ProgramError, match=r"of version 7, this toolkit reads version 8; compile the network again"):
        load_program(path)


def array(values: Any) -> Any:
    """A change that puts other values in the place of the first layer's weights."""

    def change(header: dict[str, Any], parts: dict[str, bytes]) -> None:
        stream = io.BytesIO()
        np.save(stream, values(np.load(io.BytesIO(parts[header["program"]["nodes"][0]["weights"]]))))
        parts[header["program"]["nodes"][0]["weights"]] = stream.getvalue()

    return change


def node(index: int, **values: Any) -> Any:
    return lambda header, parts: header["program"]["nodes"][index].update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (array(lambda weights: weights.T), r"weights of shape \[8, 1, 1, 6\]; .* need \[6, 1, 1, 8\]"),
        (array(lambda weights: weights[:-1]), "weights of shape"),
        (array(lambda weights: weights[()].reshape(-1)), "weights of shape"),
        (array(lambda weights: weights + (1 << 30)), "weights from .* the kernel holds -32768 to 32768"),
        (array(lambda weights: np.where(weights > 0, np.nan, 1.0)), "damaged"),
        (array(lambda weights: weights.astype("S1")), "damaged"),
        (array(lambda weights: weights.astype(">i4")), "damaged"),
        (lambda header, parts: header["program"].update(clock_mhz=float("nan")), "damaged"),
        (lambda header, parts: header["program"].update(clock_mhz=0), "clock_mhz is 0"),
        (lambda header, parts: header["program"].update(side_by_side=True), "damaged"),
        (lambda header, parts: header["program"]["tensors"]["x"].update(factor=float("inf")), "damaged"),
        (lambda header, parts: header["program"]["tensors"]["x"].update(height=5), "tensor x: .* values are not those"),
        (lambda header, parts: header["program"]["tensors"]["x"].update(axes=[0, 0]), "no order of those"),
        (lambda header, parts: header["program"]["tensors"]["x"].update(split=[2, 2, 8], axes=[0, 1]), "no order of"),
        (lambda header, parts: header["program"]["tensors"]["x"].update(split=[2, 2, 9]), "no other shape"),
        (lambda header, parts: header["program"]["outputs"].update(y=[3]), "nothing computes its output y"),
        (lambda header, parts: header["program"]["nodes"].reverse(), "before anything computes it"),
        (lambda header, parts: header["program"]["steps"][1].update(node=0), "runs node 0, which is no"),
        (node(0, kind="mean"), "1 inputs of a layer of kind mean"),
        (node(0, inputs=["y"]), "reads y before anything computes it"),
        (node(0, channels=7), "channels of it is 7; 1 to 6 are possible"),
        (node(0, channel_offset=1), "channel_offset"),
        (node(0, groups=0), "groups"),
        (node(0, groups=3), "3 groups of 8 input and 6 output channels"),
        (lambda header, parts: header["program"]["nodes"][0]["window"].update(stride_y=0), "stride_y of its window is"),
        (lambda header, parts: header["program"]["nodes"][0]["window"].update(output_height=99), "99 rows of results"),
        (lambda header, parts: header["program"]["nodes"][0]["tiles"][0].update(y1=99), "is outside its results"),
        (
            lambda header, parts: header["program"]["nodes"][0]["tiles"].extend(header["program"]["nodes"][0]["tiles"]),
            "its tiles have 48 results of 24",
        ),
        (lambda header, parts: header["program"]["nodes"][0]["policy"].update(slot=4096), "slot of its policy is 4096"),
    ],
)
def test_parts_that_do_not_fit_are_refused_though_the_digest_is_right(
    program: Program, tmp_path: Path, change: Any, message: str
) -> None:
    """Who writes such a file computes the digest too; devices must be able to rely on shapes and numbers."""
    path = tmp_path / "net.program"
    save_program(program, path)
    rewrite(path, change)
    with pytest.raises(ProgramError, match=message):
        load_program(path)
