"""What a user asks `bfpga deploy` for: from names and files to a bundle, and from a deployment to a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bfpga.board.overlays import find_overlay, overlay_for_program
from bfpga.contract.program import Program
from bfpga.deploy.bundle import Bundle, build_bundle, example_files
from bfpga.deploy.deployment import Deployment, Options, Outcome, self_test_arguments
from bfpga.deploy.secure_shell import Address, SecureShell
from bfpga.errors import DeviceError
from bfpga.program.file import load_program
from bfpga.vendor.manifest import Manifest

#: The network that is compiled when no program is given, and its calibration samples.
DEFAULT_MODEL, DEFAULT_CALIBRATION = "models/lenet_mnist.onnx", "models/mnist_calibration.npz"
#: What the notebooks read in addition to the program.
NOTEBOOK_SAMPLES = ("models/mnist_test.npz", DEFAULT_CALIBRATION)
DEFAULT_OVERLAY = "pynq_z2_dense"


@dataclass(frozen=True)
class Request:
    """overlay: name or directory, None for that of the first program. examples: folder of notebooks and models."""

    address: Address
    options: Options
    overlay: str | None = None
    programs: tuple[Path, ...] = ()
    examples: Path | None = None
    notebooks: bool = True


def example_folder() -> Path | None:
    """The notebooks and networks that come with this package; None where they were left out."""
    try:
        folder = Path(str(files("bfpga.examples")))
    except ModuleNotFoundError:
        return None
    return folder if (folder / DEFAULT_MODEL).is_file() else None


def prepare(request: Request, note: Callable[[str], None], dry_run: bool = False) -> Bundle:
    """The bundle of a request.

    DeviceError for an overlay that was never built, unless the virtual board is tested; with ``dry_run`` a note.
    """
    programs = read_programs(request.programs)
    first = next((program for program, _ in programs.values()), None)
    if request.overlay is None and first is not None:
        overlay = overlay_for_program(first)
    else:
        overlay = find_overlay(request.overlay or DEFAULT_OVERLAY)
    manifest = overlay.manifest
    if request.options.target == "board" and overlay.bitstream is None:
        unbuilt = (
            f"overlay {manifest.name} has no bitstream: it was never built. On a machine with Vivado: "
            f"bfpga build {manifest.accelerator.name}; without one, --target virtual tests everything but the hardware"
        )
        if not dry_run:
            raise DeviceError(unbuilt)
        note(f"this deployment would be refused: {unbuilt}")
    if not programs:
        programs = default_program(request, manifest, note)
    extras = example_files(request.examples, NOTEBOOK_SAMPLES) if request.notebooks and request.examples else {}
    return build_bundle(overlay, programs, extras)


def read_programs(paths: tuple[Path, ...]) -> dict[str, tuple[Program, bytes]]:
    """Programs by the names of their files, with the bytes of the files; ProgramError for what is none.

    DeviceError for a name that a list of files cannot hold: one with a line break, or that is no text.
    """
    programs: dict[str, tuple[Program, bytes]] = {}
    for path in paths:
        if not path.stem.isprintable():
            raise DeviceError(f"{path.name!a}: a file of this name cannot go to a board; rename it")
        if path.stem in programs:
            raise DeviceError(f"{path}: two programs are named {path.stem}; rename one")
        programs[path.stem] = (load_program(path), path.read_bytes())
    return programs


def default_program(
    request: Request, manifest: Manifest, note: Callable[[str], None]
) -> dict[str, tuple[Program, bytes]]:
    """LeNet of the examples, compiled for the overlay's accelerator."""
    from bfpga.accelerator.loader import load_accelerator
    from bfpga.data import load_samples
    from bfpga.errors import BfpgaError
    from bfpga.program.file import save_program
    from bfpga.runtime import compile as compile_model

    name, examples = manifest.accelerator.name, request.examples
    try:
        accelerator = load_accelerator(name)
    except BfpgaError:
        accelerator = None
    if accelerator is None or accelerator.digest != manifest.accelerator.digest or examples is None:
        raise DeviceError(
            f"there is no program to deploy, and accelerator {name} of the overlay is none of the ready ones; compile "
            "a network for it (`bfpga compile`) and give it with --program"
        )
    note(f"no --program given: compiling {examples / DEFAULT_MODEL} for {name}")
    model = examples / DEFAULT_MODEL
    calibration = load_samples(examples / DEFAULT_CALIBRATION).x[:64]
    program = compile_model(model, accelerator, calibration)
    with TemporaryDirectory() as scratch:
        save_program(program, Path(scratch) / "program")
        return {model.stem: (program, (Path(scratch) / "program").read_bytes())}


def describe(request: Request, bundle: Bundle) -> list[str]:
    """What a deployment would do, line by line."""
    options = request.options
    groups: dict[str, list[int]] = {}
    for path, data in bundle.files.items():
        group = f"{path.split('/')[0]}/" if "/" in path else "notebooks"
        groups.setdefault(group, []).append(len(data))
    lines = [f"bundle {bundle.digest} for {bundle.manifest.board.title}, overlay {bundle.manifest.name}:"]
    lines += [f"  {name:<12} {len(sizes):4} files {sum(sizes) / 1e3:10,.1f} kB" for name, sizes in groups.items()]
    lines.append(f"would go to {request.address}:{options.directory}/releases, {len(bundle.archive()) / 1e3:,.1f} kB "
                 "compressed")  # fmt: skip
    if options.test:
        words = self_test_arguments(bundle, options, "REPORT")
        lines.append("then: " + " ".join(["python3 -m bfpga.board.self_test", *words]))
    return lines


def perform(
    request: Request, bundle: Bundle, say: Callable[[str], None], show: Callable[[str], None]
) -> dict[str, Any]:
    """Deploy; the report. Errors are those of the deployment."""
    with SecureShell(request.address) as shell:
        deployment = Deployment(shell, bundle, request.options, say, show)
        outcome = deployment.run()
    return report(request, bundle, outcome)


def report(request: Request, bundle: Bundle, outcome: Outcome | None = None) -> dict[str, Any]:
    """Plain data: what was deployed where, and how it went if it was."""
    content: dict[str, Any] = {
        "host": request.address.host,
        "user": request.address.user,
        "directory": request.options.directory,
        "overlay": bundle.manifest.name,
        "accelerator": asdict(bundle.manifest.accelerator),
        "programs": list(bundle.programs),
        "bundle": bundle.digest,
        "bytes": bundle.size,
        "files": _hashes(bundle),
    }
    if outcome is None:
        return content | {"deployed": False}
    return content | {"deployed": True, "passed": outcome.passed, **asdict(outcome)}


def _hashes(bundle: Bundle) -> Mapping[str, str]:
    lines = bundle.checksums.decode().splitlines()
    return {path: digest for digest, path in (line.split("  ", 1) for line in lines)}
