"""Finding overlays: by path, by name, by the accelerator of a program; their files checked before anyone uses them.

Places, in this order: the overlays of this package, those of other installed packages (entry points `pynq.overlays`,
as PYNQ's own overlays are found), the user's cache. The overlay of a ready accelerator that was never built is in none
of them: it is written into the cache when it is asked for. What is loaded at import is the standard library and numpy.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfpga.contract.configuration import ARRAY
from bfpga.contract.layout import layout_mismatch
from bfpga.contract.program import Program
from bfpga.contract.registers import TOP_FUNCTION
from bfpga.errors import BfpgaError, DeviceError, ProgramError
from bfpga.formats.cache import cache_directory, make_private
from bfpga.formats.files import replace_file
from bfpga.vendor.manifest import (
    BITSTREAM,
    HANDOFF,
    MANIFEST_NAME,
    FileEntry,
    Manifest,
    content_hash,
    file_hash,
    hashed_stem,
    read_manifest,
)

if TYPE_CHECKING:
    from bfpga.accelerator.loader import Accelerator

#: Group of entry points under which packages offer overlays to PYNQ.
ENTRY_POINTS = "pynq.overlays"
#: Package of the overlays that come with this one.
PACKAGE = "bfpga.overlays"


@dataclass(frozen=True)
class OverlayFiles:
    """An overlay whose files are there and are those of its manifest; ``bitstream`` is None if it was never built."""

    manifest: Manifest
    directory: Path
    handoff: Path
    bitstream: Path | None

    @property
    def name(self) -> str:
        """Name of the overlay."""
        return self.manifest.name

    def check_program(self, program: Program) -> None:
        """ProgramError unless ``program`` was compiled for the accelerator of this overlay."""
        accelerator = self.manifest.accelerator
        if program.digest != accelerator.digest:
            raise ProgramError(
                f"the program was compiled for accelerator {program.accelerator} ({program.digest[:12]}); overlay "
                f"{self.name} in {self.directory} holds accelerator {accelerator.name} ({accelerator.digest[:12]}). "
                f"Compile the network for {accelerator.name}, or load the overlay of {program.accelerator}"
            )


@dataclass(frozen=True)
class StagedFiles:
    """A bitstream and the handoff next to it under the same stem, as PYNQ wants them."""

    bitstream: Path
    handoff: Path


# Loading


def load_overlay(path: str | Path) -> OverlayFiles:
    """The overlay in a directory, or of a manifest file; every file it names is compared with its hash.

    Raises ConfigurationError for a manifest that is missing or damaged, DeviceError for an overlay of another layout
    (with what differs) and for a file that is missing or another.
    """
    path = Path(path)
    directory, manifest_file = (path, path / MANIFEST_NAME) if path.is_dir() else (path.parent, path)
    manifest = read_manifest(manifest_file)
    _check_layout(manifest, directory)
    paths = {key: _checked(directory, entry) for key, entry in manifest.files.items() if entry is not None}
    return OverlayFiles(manifest, directory, paths[HANDOFF], paths.get(BITSTREAM))


def _check_layout(manifest: Manifest, directory: Path) -> None:
    """DeviceError with what differs unless the kernel has this package's layout."""
    mismatch = layout_mismatch(manifest.layout)
    if mismatch is None:
        return
    name = manifest.accelerator.name
    again = f"bfpga build {name}" if manifest.bitstream else f"bfpga overlay {name}"
    raise DeviceError(
        f"overlay {manifest.name} in {directory} is of another layout than this toolkit: {mismatch}. Make it again "
        f"(`{again}`), or install the toolkit that made it"
    )


def _checked(directory: Path, entry: FileEntry) -> Path:
    path = directory / entry.name
    try:
        found = file_hash(path)
    except OSError as error:
        raise DeviceError(
            f"{path}: named by {MANIFEST_NAME} and cannot be read: {error.strerror or error}; the overlay is "
            "incomplete, copy or generate it again"
        ) from None
    if found != entry.sha256:
        raise DeviceError(
            f"{path}: is not the file of {MANIFEST_NAME}: SHA-256 {entry.sha256} expected, {found} found; copy or "
            "generate the overlay again"
        )
    return path


def _holds(path: Path, entry: FileEntry) -> bool:
    """Whether a file is there and is that of its entry."""
    try:
        return file_hash(path) == entry.sha256
    except OSError:
        return False


# Places


def overlay_directories() -> Iterator[Path]:
    """Directories of all overlays that can be found by name, best place first; names may repeat."""
    yield from _packaged()
    yield from _cached()


def _packaged() -> Iterator[Path]:
    """Those of this package and of others."""
    for root in (*_own_places(), *_installed_places()):
        yield from sorted(path.parent for path in root.glob(f"*/{MANIFEST_NAME}"))


def _own_places() -> list[Path]:
    """Overlays of this package: installed, of the repository it is run from, or next to it in a deployed bundle."""
    package = Path(__file__).resolve().parents[1]
    places = [*_module_places(PACKAGE), package.parents[1] / "overlays", package.parent / "overlays"]
    return list(dict.fromkeys(place for place in places if place.is_dir()))


def _installed_places() -> Iterator[Path]:
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if entry.value.partition(":")[0] != PACKAGE:
            yield from _module_places(entry.value.partition(":")[0])


def _module_places(module: str) -> list[Path]:
    """Directories of a package, found without importing it."""
    try:
        specification = importlib.util.find_spec(module)
    except Exception:  # Whatever another package does when its parents are imported is no reason to stop here.
        return []
    locations = specification.submodule_search_locations if specification else None
    return [Path(location).resolve() for location in locations or ()]


def _cache() -> Path:
    return cache_directory("overlays")


def _cached() -> list[Path]:
    return sorted(path.parent for path in _cache().glob(f"*/{MANIFEST_NAME}"))


# Finding


def find_overlay(name_or_path: str | Path) -> OverlayFiles:
    """The overlay of a name, of a directory or of a manifest file; that of a ready accelerator is written if missing.

    Raises DeviceError for a name that is unknown (with those that are near) and for files that are missing or changed,
    ConfigurationError for a damaged manifest.
    """
    text = str(name_or_path)
    if _is_path(name_or_path):
        path = Path(name_or_path)
        if not (path / MANIFEST_NAME if path.is_dir() else path).is_file():
            raise DeviceError(f"{text}: there is no overlay: neither a directory with {MANIFEST_NAME} nor such a file")
        return load_overlay(path)
    known = {directory.name: directory for directory in reversed([*_packaged()])}
    if text in known:
        return load_overlay(known[text])
    if accelerator := _ready(text):
        return load_overlay(store_overlay(accelerator))
    named = [(_cached_name(directory), directory) for directory in _cached()]
    for name, directory in named:
        if name == text:
            return load_overlay(directory)
    if (Path(text) / MANIFEST_NAME).is_file():
        return load_overlay(text)
    raise DeviceError(_unknown(text, sorted({*known, *_ready_names(), *(name for name, _ in named if name)})))


def _ready(name: str) -> Accelerator | None:
    """The ready accelerator of a name; None if there is none, or this machine cannot read it."""
    try:
        from bfpga.accelerator.loader import is_ready, load_accelerator
    except ImportError:  # A board has no YAML library.
        return None
    return load_accelerator(name) if is_ready(name) else None


def _ready_names() -> list[str]:
    """Names of the ready accelerators, as far as this machine can read them."""
    try:
        from bfpga.accelerator.loader import accelerator_names
    except ImportError:
        return []
    return accelerator_names()


def _is_path(name: str | Path) -> bool:
    return isinstance(name, Path) or "/" in name or name.endswith((".yaml", ".yml"))


def _cached_name(directory: Path) -> str | None:
    """Name of the overlay in a directory of the cache, which is named by a digest.

    None for one that is damaged, or that an earlier version of this toolkit generated.
    """
    manifest = _manifest(directory)
    usable = manifest is not None and (manifest.bitstream is not None or layout_mismatch(manifest.layout) is None)
    return manifest.name if manifest is not None and usable else None


def _manifest(directory: Path) -> Manifest | None:
    try:
        return read_manifest(directory / MANIFEST_NAME)
    except BfpgaError:
        return None


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean `{near[0]}`? " if near else ""
    return (
        f"there is no overlay {name!r}: {hint}known overlays: {', '.join(known) or 'none'}. An overlay of an "
        "accelerator file is written by `bfpga overlay FILE -o DIR`; give the directory DIR/NAME then"
    )


def overlay_for_program(program: Program) -> OverlayFiles:
    """The overlay that holds a program's accelerator, found by its digest; one with a bitstream is preferred.

    Where none exists and the digest is that of a ready accelerator, it is generated into the cache, if this machine
    has the packages for it. DeviceError with the reason otherwise.
    """
    found = [directory for directory in overlay_directories() if _digest(directory) == program.digest]
    built = [directory for directory in found if _has_bitstream(directory)]
    # What the cache holds without a bitstream may be of an earlier version of this toolkit: write it anew if possible.
    lasting = [directory for directory in found if directory.parent != _cache()]
    generated = _generate(program.digest) if not built and not lasting else None
    best = next((directory for directory in (*built, *lasting, generated, *found) if directory is not None), None)
    if best is None:
        raise DeviceError(_no_overlay(program))
    return load_overlay(best)


def provide_overlay(program: Program, accelerator: Accelerator) -> None:
    """See to it that `overlay_for_program` finds one: write the accelerator's into the cache unless a place has it."""
    if not any(
        _digest(directory) == program.digest for directory in overlay_directories() if directory.parent != _cache()
    ):
        store_overlay(accelerator)


def _digest(directory: Path) -> str | None:
    manifest = _manifest(directory)
    return manifest.accelerator.digest if manifest else None


def _has_bitstream(directory: Path) -> bool:
    manifest = _manifest(directory)
    return manifest is not None and manifest.bitstream is not None


def _generate(digest: str) -> Path | None:
    """The overlay of the ready accelerator of that digest, in the cache; None if there is none or no way to make it."""
    try:
        from bfpga.accelerator.loader import ready_accelerators
    except ImportError:  # A board has no YAML library.
        return None
    for accelerator in ready_accelerators():
        if accelerator.digest == digest:
            return store_overlay(accelerator)
    return None


def _no_overlay(program: Program) -> str:
    manifests = filter(None, map(_manifest, overlay_directories()))
    other = next((item for item in manifests if item.accelerator.name == program.accelerator), None)
    ready = _ready(program.accelerator)
    digest = other.accelerator.digest if other else ready.digest if ready else None
    mismatch = layout_mismatch(other.layout) if other else None
    changed = f"its layout is another ({mismatch})" if mismatch else "the accelerator or the toolkit has changed since"
    reason = (
        f"the overlay of that name holds another one ({digest[:12]}): {changed}; compile the network again, or load "
        "the overlay the program was compiled for"
        if digest
        else "write one with `bfpga overlay FILE -o DIR` and load it by its directory"
    )
    return (
        f"no overlay holds accelerator {program.accelerator} ({program.digest[:12]}), for which the program was "
        f"compiled: {reason}"
    )


# Writing


def store_overlay(accelerator: Accelerator) -> Path:
    """Write the overlay of an accelerator into the user's cache; returns its directory, named by the digest.

    One that has a bitstream is left as it is. Needs the packages of the compiler's side.
    """
    from bfpga.vendor.overlay_files import write_overlay

    directory = _cache() / accelerator.digest
    if _digest(directory) == accelerator.digest and _has_bitstream(directory):
        return directory
    try:
        make_private(directory.parent)
        write_overlay(accelerator, directory)
    except OSError as error:
        raise _unwritable(directory, error) from None
    return directory


def _unwritable(directory: Path, error: OSError) -> DeviceError:
    return DeviceError(
        f"{directory}: cannot write an overlay there: {error.strerror or error}; set BFPGA_CACHE to a directory "
        "that can be written"
    )


def staged_files(overlay: OverlayFiles, directory: Path, virtual: bool = False) -> StagedFiles:
    """Bitstream and handoff of an overlay side by side in ``directory``, under a stem that holds their hash.

    virtual: for a virtual board, which gets an emulation bitstream, built or not. DeviceError for a real board when
    the overlay was never built.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if virtual:
        return _stage_emulation(overlay, directory)
    if overlay.bitstream is None or overlay.manifest.bitstream is None:
        raise DeviceError(
            f"overlay {overlay.name} in {overlay.directory} has no bitstream: it was never built, so only the virtual "
            "board runs it. On a machine with Vivado: bfpga build " + overlay.manifest.accelerator.name
        )
    hashes = overlay.manifest.bitstream.sha256 + overlay.manifest.handoff.sha256
    stem = hashed_stem(overlay.name, content_hash(hashes.encode()))
    staged = StagedFiles(directory / f"{stem}.bit", directory / f"{stem}.hwh")
    for source, target, entry in (
        (overlay.bitstream, staged.bitstream, overlay.manifest.bitstream),
        (overlay.handoff, staged.handoff, overlay.manifest.handoff),
    ):
        if not _holds(target, entry):
            replace_file(target, source.read_bytes())
    return staged


def _stage_emulation(overlay: OverlayFiles, directory: Path) -> StagedFiles:
    from bfpga.board.virtual.bitfile import write_emulation_bitstream

    handoff = overlay.handoff.read_bytes()
    kernels = kernel_descriptions(overlay.manifest)
    content = handoff + json.dumps(kernels, sort_keys=True).encode()
    stem = hashed_stem(f"{overlay.name}-virtual", content_hash(content))
    staged = StagedFiles(directory / f"{stem}.bit", directory / f"{stem}.hwh")
    write_emulation_bitstream(staged.bitstream, _handoff_text(overlay.handoff, handoff), kernels)
    replace_file(staged.handoff, handoff)
    return staged


def _handoff_text(path: Path, content: bytes) -> str:
    """A handoff as text; DeviceError for other encodings than Vivado's, which may begin with a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DeviceError(
            f"{path}: is no hardware handoff: byte {error.start} is no UTF-8; copy it from the build, or generate the "
            "overlay again"
        ) from None


def kernel_descriptions(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """What a virtual board needs to model each kernel of an overlay, by instance name."""
    description = {
        "kind": ARRAY,
        "name": manifest.accelerator.name,
        "digest": manifest.accelerator.digest,
        "configuration": dict(manifest.configuration),
        "layout": manifest.layout,
        "clock_mhz": manifest.clock.requested_mhz,
    }
    return {name: description for name, cell in manifest.cells.items() if f":{TOP_FUNCTION}:" in cell.vlnv}
