"""Files of every kind that a command reads, damaged copies of them, and what reading one comes to.

Each is read by the function that the command line reads it with.
"""

from __future__ import annotations

import ctypes
import io
import random
import shutil
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from mutations import mutations
from small_networks import WIDE, Network
from small_networks import compiled as compiled_network
from structure_mutations import MUTATORS

from bfpga import runtime
from bfpga.accelerator.boards import config_folder, load_board, read_board
from bfpga.accelerator.loader import load_accelerator
from bfpga.board.overlays import load_overlay, staged_files
from bfpga.compiler.read.network import read_network
from bfpga.compiler.recipes import load_recipe
from bfpga.data import load_samples
from bfpga.devices import toolchain
from bfpga.devices.emulator import Emulator
from bfpga.devices.library_cache import RECORD, cached_library
from bfpga.devices.native.library import NUMPY
from bfpga.engines.positions.measured_clocks import load_clocks
from bfpga.errors import BfpgaError
from bfpga.program.file import load_program, save_program
from bfpga.program.listing import listing
from bfpga.vendor.manifest import MANIFEST_NAME, content_hash, file_hash
from bfpga.vendor.overlay_files import write_overlay

MODELS = Path(__file__).parents[2] / "examples" / "models"
CLOCKS = '{"layers": [{"name": "conv1", "operation": "conv", "clocks": {"keep": [1, 2], "two_pass": [3.5, 4]}}]}'
#: right: read, and what was checked of it held. refused: one error with a message that a user can act on.
Outcome = Literal["right", "refused"]


@dataclass(frozen=True)
class Kind:
    """A kind of file. prepare: writes whole ones into a folder and names those to damage; read: reads them there."""

    prepare: Callable[[Path], Sequence[Path]]
    read: Callable[[Path], object]


def outcome(kind: Kind, folder: Path) -> Outcome:
    """What reading comes to; every error that is no message for the user is raised."""
    try:
        kind.read(folder)
    except BfpgaError as error:
        check_message(str(error))
        return "refused"
    except OSError as error:
        if error.filename is None:
            raise
        check_message(str(error.strerror))
        return "refused"
    return "right"


def check_message(text: str) -> None:
    """A message says something, on a page, and is no traceback."""
    if not text.strip() or len(text) > 20_000 or "Traceback" in text:
        raise AssertionError(f"no message for a user: {text[:300]!r}")


def damage(files: Sequence[tuple[Path, bytes]], index: int, seed: int) -> None:
    """Write the damaged copy of number ``index`` over one of the whole files; the others are written whole."""
    for path, content in files:
        path.unlink(missing_ok=True)  # a library that this process has loaded is not written into
        path.write_bytes(content)
    path, content = files[index % len(files)]
    number, turn = seed * 1_000_003 + index, index // len(files) % 4
    if turn >= 2 and path.suffix in MUTATORS:
        path.write_bytes(MUTATORS[path.suffix](content, random.Random(number)))
    elif turn % 2 and zipfile.is_zipfile(io.BytesIO(content)):
        path.write_bytes(damaged_member(content, number))
    else:
        path.write_bytes(next(mutations(content, 1, number)))
    if turn == 3 and path.suffix == ".hwh":
        state_hash(path, content)


def state_hash(path: Path, content: bytes) -> None:
    """Let the manifest beside a damaged file name its hash; content: the whole file's."""
    manifest = path.parent / MANIFEST_NAME
    manifest.write_text(manifest.read_text().replace(content_hash(content), file_hash(path)))


def damaged_member(content: bytes, number: int) -> bytes:
    """An archive whose checksums are right and one of whose members is damaged."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(result, "w") as target:
        names = source.namelist()
        for name in names:
            data = source.read(name)
            if name == names[number % len(names)]:
                # The header of an array is its first 128 bytes, where a change is felt.
                head = 128 if name.endswith(".npy") and number % 3 else len(data)
                data = next(mutations(data[:head], 1, number)) + data[head:]
            target.writestr(name, data)
    return result.getvalue()


def shipped(kind: str, name: str, target: str) -> Callable[[Path], Sequence[Path]]:
    def prepare(folder: Path) -> Sequence[Path]:
        return [Path(shutil.copy(config_folder(kind) / f"{name}.yaml", folder / target))]

    return prepare


def read_board_file(folder: Path) -> object:
    read_board.cache_clear()
    return load_board(folder / "board.yaml")


def prepare_network(folder: Path) -> Sequence[Path]:
    model = onnx.load(MODELS / "mlp_digits.onnx")
    onnx.save(model, folder / "net.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    return [folder / "net.onnx", folder / "net.onnx", folder / "weights.bin"]


def compile_network(folder: Path) -> object:
    """As `bfpga estimate` does."""
    network = read_network(folder / "net.onnx")
    return runtime.compile(network, "tiny")


def prepare_samples(folder: Path) -> Sequence[Path]:
    with np.load(MODELS / "digits_test.npz") as arrays:
        np.savez_compressed(folder / "samples.npz", **{name: arrays[name][:40] for name in ("x", "y")},
                            x_offset=np.float32(1), x_scale=np.ones((8,), np.float32))  # fmt: skip
    return [folder / "samples.npz"]


def prepare_program(folder: Path) -> Sequence[Path]:
    """Programs with every kind of node and step."""
    image = Network(2, 6, 6)
    image.add("Relu", image.conv(4, 2, 3, pads=[1, 1, 1, 1]))
    image.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    image.add("Softmax", image.add("Flatten"), axis=1)
    attention = Network(4, 8)
    query = attention.add("MatMul", "x", attention.weights(8, 6))
    attention.add("MatMul", query, attention.add("Transpose", query, perm=[0, 2, 1]))
    for name, network in (("image", image), ("attention", attention)):
        save_program(compiled_network(network, folder, WIDE), folder / f"{name}.bfpga")
    return [folder / "image.bfpga", folder / "attention.bfpga"]


def read_program(folder: Path) -> object:
    """As `bfpga show` and `bfpga run` on the emulator do, with the engines in numpy."""
    for name, shape in (("image", (1, 2, 6, 6)), ("attention", (1, 4, 8))):
        program = load_program(folder / f"{name}.bfpga")
        listing(program)
        Emulator(program, NUMPY).run({"x": np.linspace(-1, 1, prod(shape), dtype=np.float32).reshape(shape)})
    return None


def prepare_overlay(folder: Path) -> Sequence[Path]:
    manifest = write_overlay(load_accelerator("tiny"), folder)
    return [folder / "overlay.yaml", folder / "overlay.yaml", folder / manifest.handoff.name]


def read_overlay(folder: Path) -> object:
    """As loading it on a virtual board begins."""
    return staged_files(load_overlay(folder), folder / "staged", virtual=True)


def compiled(built: Path, directory: Path) -> None:
    """The library of ``prepare_kernel``, compiled once in the folder."""
    kept = directory.parent / "answer.kept"
    if not kept.exists():
        source = directory / "answer.cpp"
        source.write_text('extern "C" int answer() { return 42; }\n')
        toolchain.run_compiler(["-fPIC", "-shared", str(source), "-o", str(kept)])
    shutil.copy(kept, built)


def prepare_kernel(folder: Path) -> Sequence[Path]:
    library = cached_library(folder / "kernel.so", compiled)
    return [library, library, library.with_suffix(RECORD)]


def load_kernel(folder: Path) -> object:
    library = ctypes.CDLL(str(cached_library(folder / "kernel.so", compiled)))
    assert library.answer() == 42
    return library


def prepare_clocks(folder: Path) -> Sequence[Path]:
    (folder / "clocks.json").write_text(CLOCKS)
    return [folder / "clocks.json"]


KINDS: dict[str, Kind] = {
    "accelerator": Kind(
        shipped("accelerators", "zcu104_hetero", "accelerator.yaml"),
        lambda folder: load_accelerator(folder / "accelerator.yaml"),
    ),
    "board": Kind(shipped("boards", "pynq_z2", "board.yaml"), read_board_file),
    "recipe": Kind(shipped("networks", "adaptive", "recipe.yaml"), lambda folder: load_recipe(folder / "recipe.yaml")),
    "ONNX, external data": Kind(prepare_network, compile_network),
    "NPZ": Kind(prepare_samples, lambda folder: load_samples(folder / "samples.npz", (64,), 5)),
    "program": Kind(prepare_program, read_program),
    "overlay": Kind(prepare_overlay, read_overlay),
    "cached kernel": Kind(prepare_kernel, load_kernel),
    "measured clocks": Kind(prepare_clocks, lambda folder: load_clocks(folder / "clocks.json").choices()),
}


def prepared(kind: Kind, folder: Path) -> list[tuple[Path, bytes]]:
    """The whole files that are damaged in turn, and their contents."""
    return [(path, path.read_bytes()) for path in kind.prepare(folder)]
