"""A deployment: look at the board, copy, verify, switch, test. Until the switch the old version is untouched."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.resources import files
from time import perf_counter
from typing import Any

from bfpga.deploy import board_commands
from bfpga.deploy.bundle import Bundle
from bfpga.deploy.secure_shell import Answer, SecureShell
from bfpga.errors import DeviceError
from bfpga.vendor.manifest import Manifest

#: The oldest Python whose grammar the board's modules keep to: that of the PYNQ 3.0 images.
OLDEST_PYTHON = (3, 10)
#: Bytes in addition to the bundle: the bitstream's copy in /lib/firmware, reports, slack of file system blocks.
SPARE_BYTES = 32 << 20
#: Seconds a copy may take at most, and the slowest link that is waited for.
COPY_SECONDS, COPY_BYTES_PER_SECOND = 120, 100_000
#: Seconds between the limit of the self-test on the board and giving up here.
LATE_SECONDS = 60


@dataclass(frozen=True)
class Options:
    """directory: on the board. test: run the self-test; target: on what (`board`, or `virtual` on any machine)."""

    directory: str = "/home/xilinx/bfpga"
    test: bool = True
    target: str = "board"
    repeat: int = 50
    test_seconds: float = 900
    notebooks: str = "/home/xilinx/jupyter_notebooks"
    profiles: str = board_commands.PROFILE_DIRECTORY

    def __post_init__(self) -> None:
        if not self.directory.startswith("/") or "\n" in self.directory:
            raise DeviceError(f"directory {self.directory!r}: give an absolute path on the board")
        if self.target not in ("board", "virtual"):
            raise DeviceError(f"target {self.target!r} is unknown; the self-test runs on `board` or `virtual`")


@dataclass(frozen=True)
class BoardFacts:
    """What the probe found."""

    python: tuple[int, ...]
    numpy: str | None
    pynq: str | None
    board: str
    machine: str
    free_bytes: int
    writable: bool
    root: str
    missing_tools: list[str]
    current: str | None

    @classmethod
    def parse(cls, output: str) -> BoardFacts:
        """From what the probe printed: the last line, whatever a login script said before. ValueError otherwise."""
        lines = [line for line in output.splitlines() if line.startswith("{")]
        values = json.loads(lines[-1]) if lines else None
        if not isinstance(values, dict):
            raise ValueError("no facts")
        return cls(**(values | {"python": tuple(values["python"])}))


@dataclass
class Outcome:
    """What a deployment did. ``self_test``: the report of the test on the board, None without a test."""

    release: str
    facts: BoardFacts
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    notebooks: str | None = None
    self_test: dict[str, Any] | None = None

    @property
    def passed(self) -> bool:
        """Whether nothing that was tried failed."""
        return self.self_test is None or self.self_test.get("passed") is True


class Deployment:
    """One bundle to one board. ``say`` gets a line for each step, ``show`` the self-test's output as it comes."""

    def __init__(
        self,
        shell: SecureShell,
        bundle: Bundle,
        options: Options,
        say: Callable[[str], None],
        show: Callable[[str], None],
    ) -> None:
        self.shell = shell
        self.bundle = bundle
        self.options = options
        self.say = say
        self.show = show
        moment = datetime.now(timezone.utc)
        self.release = f"{moment:%Y%m%d-%H%M%S}-{moment.microsecond // 1000:03}-{bundle.digest}"

    @property
    def path(self) -> str:
        """Directory of the new version on the board."""
        return f"{self.options.directory}/releases/{self.release}"

    def run(self) -> Outcome:
        """All steps; DeviceError with what is wrong and what has been left as it was."""
        facts = self.probe()
        outcome = Outcome(self.release, facts)
        with _timed(outcome.seconds, "copy"):
            outcome.warnings = check(facts, self.bundle, self.options, self.shell.interactive)
            for warning in outcome.warnings:
                self.say(f"warning: {warning}")
            self.install(facts)
        outcome.notebooks = self.link_notebooks()
        if self.options.test:
            with _timed(outcome.seconds, "self_test"):
                outcome.self_test = self.self_test()
        return outcome

    def probe(self) -> BoardFacts:
        """Look at the board."""
        program = files("bfpga.deploy").joinpath("board_probe.py").read_bytes()
        command = board_commands.probe_command(self.options.directory, self.options.profiles)
        answer = self.shell.run(command, program)
        try:
            facts = BoardFacts.parse(answer.output)
        except (ValueError, TypeError, KeyError):
            raise DeviceError(
                f"{self.shell.address}: python3 does not answer there ({_last_line(answer)}); is this a PYNQ image?"
            ) from None
        version = ".".join(map(str, facts.python))
        self.say(
            f"{self.shell.address}: {facts.board or 'board of unknown name'}, {facts.machine}, Python {version}, "
            f"numpy {facts.numpy or 'missing'}, pynq {facts.pynq or 'missing'}, {facts.free_bytes >> 20} MiB free"
        )
        return facts

    def install(self, facts: BoardFacts) -> None:
        """Copy, verify, switch."""
        archive = self.bundle.archive()
        command = board_commands.install_command(self.options.directory, self.release)
        kept = "the version there before still works" if facts.current else "nothing has been installed"
        again = f"{kept}; run the deployment again"
        try:
            answer = self.shell.run(command, archive, COPY_SECONDS + len(archive) / COPY_BYTES_PER_SECOND)
        except DeviceError as error:
            raise DeviceError(f"the copy was interrupted: {error}; {again}") from None
        if answer.status:
            raise DeviceError(f"{self.shell.address}: {self._install_failure(answer)}; {kept}")
        self.say(
            f"copied {len(self.bundle.files)} files, {len(archive) / 1e6:.1f} MB compressed, all hashes right on the "
            f"board: {self.path}"
        )

    def _install_failure(self, answer: Answer) -> str:
        directory, reason = self.options.directory, _last_line(answer)
        if "No space left" in answer.errors or "Disk quota exceeded" in answer.errors:
            return f"the card is full ({reason}); make room, for example among the old versions in {directory}/releases"
        if answer.status == board_commands.HASH_DIFFERS:
            return f"files arrived damaged ({reason}); check cable and card"
        if answer.status == board_commands.BUSY:
            return "another deployment is running there"
        if answer.status == board_commands.LINK_TAKEN:
            return f"{directory}/current is not a link of a deployment ({reason}); move it away"
        return f"the copy failed ({reason})"

    def link_notebooks(self) -> str | None:
        """Show the notebooks in Jupyter where its folder exists."""
        if not any(path.endswith(".ipynb") for path in self.bundle.files):
            return None
        command = board_commands.link_notebooks_command(self.options.directory, self.options.notebooks)
        link = self.shell.run(command).output.strip() or None
        if link:
            self.say(f"notebooks: {link}")
        return link

    def self_test(self) -> dict[str, Any]:
        """Run the test on the board, show what it prints, and give its report."""
        report, limit = f"{self.options.directory}/reports/{self.release}.json", self.options.test_seconds
        command = board_commands.self_test_command(
            self.path,
            self_test_arguments(self.bundle, self.options, report),
            limit,
            root=self.options.target == "board" and self.shell.address.user != "root",
            ask=self.shell.interactive,
            profiles=self.options.profiles,
        )
        self.say(f"self-test on {self.options.target}:")
        status = self.shell.stream(command, self.show, limit + LATE_SECONDS)
        if status == board_commands.TIMED_OUT:
            raise DeviceError(f"{self.shell.address}: the self-test was stopped after {limit:g} s; the board may hang")
        answer = self.shell.run(f"cat {shlex.quote(report)}")
        try:
            content = json.loads(answer.output)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise DeviceError(
                f"{self.shell.address}: the self-test ended with exit code {status} and without a report; its output "
                "above says why"
            )
        return content


def check(facts: BoardFacts, bundle: Bundle, options: Options, interactive: bool) -> list[str]:
    """Refuse a board that cannot take the bundle, with all reasons at once; what is only doubtful is returned."""
    problems = [*_software_problems(facts), *_storage_problems(facts, bundle, options)]
    warnings = []
    if options.target == "board":
        wanted = bundle.manifest.board.name
        if not facts.board:
            warnings.append(f"the image does not say which board it is; the overlay is for {wanted}")
        elif not same_board(facts.board, wanted):
            problems.append(
                f"it is a {facts.board}, overlay {bundle.manifest.name} is for {bundle.manifest.board.title}; build "
                "the accelerator for this board, or choose another with --overlay"
            )
        if options.test:
            problems += _root_problems(facts, interactive)
        warnings += _pynq_warnings(facts, bundle.manifest)
    if problems:
        raise DeviceError("the board cannot take this deployment:\n" + "\n".join(f"  - {text}" for text in problems))
    return warnings


def _software_problems(facts: BoardFacts) -> Iterator[str]:
    if facts.python < OLDEST_PYTHON:
        wanted, found = (".".join(map(str, version)) for version in (OLDEST_PYTHON, facts.python))
        yield f"its Python is {found}, {wanted} is needed: write a PYNQ image 3.0.1 or newer to the card"
        return
    for name, version in (("numpy", facts.numpy), ("pynq", facts.pynq)):
        if version is None:
            yield f"{name} is not installed for its Python: use a PYNQ image, or set up pynq there"
    if facts.numpy is not None and facts.numpy.split(".")[0] not in ("0", "1"):
        yield f"its numpy is {facts.numpy}; pynq works with numpy 1 only: pip install 'numpy<2'"
    if facts.missing_tools:
        yield f"it lacks {', '.join(facts.missing_tools)}: install coreutils, tar, gzip and util-linux"


def _storage_problems(facts: BoardFacts, bundle: Bundle, options: Options) -> Iterator[str]:
    if not facts.writable:
        yield f"the user may not write to {options.directory}: choose another --directory or --user"
    needed = bundle.size + SPARE_BYTES
    if facts.free_bytes < needed:
        yield (
            f"its card is full: {facts.free_bytes / 1e6:.0f} MB are free and {needed / 1e6:.0f} MB are needed; make "
            f"room, for example among the old versions in {options.directory}/releases"
        )


def _root_problems(facts: BoardFacts, interactive: bool) -> Iterator[str]:
    if facts.root == "no":
        yield "programming the logic needs root and there is no sudo: log in with --user root, or use --no-test"
    elif facts.root == "password" and not interactive:
        yield "sudo asks for a password there and here is no terminal: run from a terminal, or use --no-test"


def _pynq_warnings(facts: BoardFacts, manifest: Manifest) -> Iterator[str]:
    major = int(facts.pynq.split(".")[0]) if facts.pynq and facts.pynq[0].isdigit() else 0
    if major >= 4 and manifest.board.processing_system == "zynq7":
        yield f"pynq {facts.pynq} no longer supports Zynq-7000; the images 3.0.1 and 3.1 do"


def same_board(image: str, board: str) -> bool:
    """Whether PYNQ's name of a board (`Pynq-Z2`, `Ultra96`) is that of a board file (`pynq_z2`, `ultra96_v2`)."""
    first, second = (re.sub(r"[^a-z0-9]", "", name.lower()) for name in (image, board))
    return first == second or second in (f"{first}v1", f"{first}v2")


def self_test_arguments(bundle: Bundle, options: Options, report: str) -> list[str]:
    """Arguments of the self-test, relative to the bundle's directory."""
    words = ["--overlay", bundle.overlay, "--target", options.target, "--repeat", str(options.repeat)]
    for program in bundle.programs:
        words += ["--program", program]
    return [*words, "--json", report]


def _last_line(answer: Answer) -> str:
    lines = [line.strip() for line in answer.errors.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {answer.status}"


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    start = perf_counter()
    yield
    seconds[step] = perf_counter() - start
