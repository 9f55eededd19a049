"""The bundle: a directory that runs on a board with what a PYNQ image has, and the hashes of all its files.

    bfpga/                 the modules a board needs
    vitis_hls_templates/   sources of the kernels, for a virtual board on that machine
    overlays/              the overlay: manifest, handoff, bitstream
    programs/              compiled networks, each with test vectors: inputs and outputs of the emulator on this machine
    models/                samples that the notebooks use
    *.ipynb                notebooks
    SHA256SUMS             as `sha256sum --check` reads it
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

from bfpga.board.overlays import OverlayFiles
from bfpga.contract.program import Program
from bfpga.deploy.closure import board_modules
from bfpga.devices.emulator import Emulator
from bfpga.devices.vectors import Vectors, random_inputs
from bfpga.vendor.manifest import MANIFEST_NAME, Manifest

CHECKSUMS = "SHA256SUMS"
TEMPLATES = "vitis_hls_templates"
#: Samples in the test vectors of a program.
VECTOR_SAMPLES = 4


@dataclass(frozen=True)
class Bundle:
    """Everything that goes to a board. ``files``: content by path, `/` between the parts; ``programs``: their paths."""

    manifest: Manifest
    overlay: str
    programs: tuple[str, ...]
    files: Mapping[str, bytes]

    @cached_property
    def checksums(self) -> bytes:
        """The text of SHA256SUMS."""
        lines = [f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in sorted(self.files.items())]
        return "".join(lines).encode()

    @property
    def digest(self) -> str:
        """Names this content: twelve digits of the hash of all hashes."""
        return hashlib.sha256(self.checksums).hexdigest()[:12]

    @property
    def size(self) -> int:
        """Bytes on the board's file system, without its blocks' slack."""
        return sum(map(len, self.files.values())) + len(self.checksums)

    def archive(self) -> bytes:
        """The bundle as a compressed tar archive; the same content gives the same bytes."""
        buffer = io.BytesIO()
        with (
            gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as compressed,
            tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path, data in [*sorted(self.files.items()), (CHECKSUMS, self.checksums)]:
                member = tarfile.TarInfo(path)
                member.size, member.mode = len(data), 0o644
                archive.addfile(member, io.BytesIO(data))
        return buffer.getvalue()

    def write(self, directory: Path) -> None:
        """Unpack into a directory."""
        for path, data in [*self.files.items(), (CHECKSUMS, self.checksums)]:
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def build_bundle(
    overlay: OverlayFiles, programs: Mapping[str, tuple[Program, bytes]], extras: Mapping[str, bytes]
) -> Bundle:
    """Collect a bundle.

    programs: by name, with the bytes of their files; extras: notebooks and what they read, by path. ProgramError for a
    program that was compiled for another accelerator.
    """
    files = dict(extras) | package_files() | overlay_files(overlay)
    for name, (program, data) in programs.items():
        overlay.check_program(program)
        files[f"programs/{name}.bfpga"] = data
        files[f"programs/{name}.vectors.npz"] = vectors(program).to_bytes()
    paths = tuple(f"programs/{name}.bfpga" for name in programs)
    return Bundle(overlay.manifest, f"overlays/{overlay.name}", paths, files)


def package_files() -> dict[str, bytes]:
    """The modules a board needs and the sources of kernels, as files of their packages."""
    result = {}
    for module, path in board_modules().items():
        stem = module.replace(".", "/")
        result[f"{stem}/__init__.py" if path.name == "__init__.py" else f"{stem}.py"] = path.read_bytes()
    return result | kernel_sources()


def kernel_sources() -> dict[str, bytes]:
    """Headers and templates of the kernels, as files of their package."""
    root = Path(str(resources.files(TEMPLATES)))
    kinds = ("include/**/*.hpp", "kernels/**/*.j2", "shim/*.h")
    paths = [root / "__init__.py", *(path for kind in kinds for path in root.glob(kind))]
    return {f"{TEMPLATES}/{path.relative_to(root).as_posix()}": path.read_bytes() for path in paths}


def overlay_files(overlay: OverlayFiles) -> dict[str, bytes]:
    """The manifest and the files it names, which were compared with their hashes when the overlay was found."""
    names = [MANIFEST_NAME, *(entry.name for entry in overlay.manifest.files.values() if entry is not None)]
    return {f"overlays/{overlay.name}/{name}": (overlay.directory / name).read_bytes() for name in names}


def vectors(program: Program) -> Vectors:
    """Random inputs of a program and what the emulator of this machine makes of them."""
    inputs = random_inputs(program, VECTOR_SAMPLES, seed=1)
    return Vectors(inputs, Emulator(program).run(inputs).outputs)


def example_files(directory: Path, samples: Iterable[str]) -> dict[str, bytes]:
    """The notebooks of a directory and the sample files they read."""
    notebooks = {path.name: path.read_bytes() for path in sorted(directory.glob("*.ipynb"))}
    return notebooks | {name: (directory / name).read_bytes() for name in samples if (directory / name).is_file()}
