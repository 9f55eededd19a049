"""A build that is killed at any point goes on as if nothing had happened; two builds never share a directory."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from effort import drawn
from vendor_tools.workshop import HERE, Workshop

from bfpga.errors import ToolError
from bfpga.vendor.bitstream.lock import LOCK_FILE, build_lock
from bfpga.vendor.bitstream.pipeline import stage_names
from bfpga.vendor.bitstream.processes import processes_of

pytestmark = pytest.mark.skipif(shutil.which("tclsh") is None, reason="the stand-ins run scripts in tclsh")
#: Builds, and how often each is killed at a random moment.
BUILDS, KILLS = drawn(3), 5
#: Seconds a build without interruption takes at least; the moments lie within.
SPAN = 0.6


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(HERE / "c++"))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The overlay of a build that nobody disturbs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", str(HERE / "c++"))
        workshop = Workshop(tmp_path_factory.mktemp("reference"))
        assert workshop.run().error is None
        return workshop.overlay_content()


def start(workshop: Workshop, before: Callable[[], object] = lambda: None) -> int:
    """Run a build in a child process; its exit code is 0 for success."""
    child = os.fork()
    if child == 0:
        code = 9
        try:
            before()
            code = 0 if workshop.run().error is None else 1
        finally:
            os._exit(code)
    return child


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def finish_and_compare(workshop: Workshop, reference: dict[str, bytes]) -> None:
    """Build to the end: the overlay is the reference's, file by file, and nothing is left over."""
    report = workshop.run()
    assert report.error is None
    assert workshop.overlay_content() == reference
    directory = workshop.new_build().directory
    assert not [path for path in directory.rglob(".*") if path.is_file()]
    assert processes_of(directory) == []


def test_what_a_killed_build_left_under_temporary_names_is_removed(
    tmp_path: Path, reference: dict[str, bytes]
) -> None:
    workshop = Workshop(tmp_path)
    directory = workshop.new_build().directory
    for name in (".render.1", "stages/.hls.json.2", "scripts/.synthesis.tcl.3"):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    finish_and_compare(workshop, reference)


@pytest.mark.parametrize("seed", range(BUILDS))
def test_build_killed_at_random_moments_gives_the_same_overlay(
    tmp_path: Path, reference: dict[str, bytes], seed: int
) -> None:
    workshop, moments = Workshop(tmp_path), random.Random(seed)
    for _ in range(KILLS):
        child = start(workshop)
        time.sleep(moments.uniform(0.0, SPAN))
        kill(child)
    finish_and_compare(workshop, reference)


def die_after(count: int) -> Callable[[], object]:
    """Makes a process kill itself right after it has renamed so many files into place."""

    def prepare() -> None:
        done, rename = 0, os.replace

        def counted(*arguments: object, **options: object) -> None:
            nonlocal done
            rename(*arguments, **options)  # type: ignore[arg-type]
            done += 1
            if done == count:
                os.kill(os.getpid(), signal.SIGKILL)

        os.replace = counted  # type: ignore[assignment]

    return prepare


def test_build_killed_after_every_file_it_puts_in_place_gives_the_same_overlay(
    tmp_path: Path, reference: dict[str, bytes]
) -> None:
    """The five scripts come first; then every run gets one stage further, at last one file of the overlay further."""
    workshop = Workshop(tmp_path)
    stages = len(stage_names()) - 1
    for count in [1, 3, 5, *[6] * stages, 6, 7, 8, 9, 10, 11]:
        _, status = os.waitpid(start(workshop, die_after(count)), 0)
        assert os.WIFSIGNALED(status)
    finish_and_compare(workshop, reference)


def hanging_build(workshop: Workshop) -> int:
    """A child that builds, and whose tool hangs."""
    workshop.fail("hls", "hang")
    child = start(workshop)
    deadline = time.monotonic() + 20
    directory = workshop.new_build().directory
    while ("hls_sequencer" not in workshop.calls() or len(processes_of(directory)) < 2) and time.monotonic() < deadline:
        time.sleep(0.02)
    return child


def test_second_build_in_the_same_directory_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    child = hanging_build(workshop)
    try:
        with pytest.raises(ToolError, match=f"process {child} on .* is building here"):
            workshop.run()
        assert len(processes_of(workshop.new_build().directory)) >= 2
    finally:
        kill(child)
        workshop.configure(failures={})
        workshop.run(until="render")


def test_lock_and_tools_of_a_killed_build_are_taken_over_with_a_message(
    tmp_path: Path, reference: dict[str, bytes]
) -> None:
    """The tool and its helper outlive the build that was killed; they must not write into the next one."""
    workshop = Workshop(tmp_path)
    kill(hanging_build_of := hanging_build(workshop))
    workshop.configure(failures={})
    assert processes_of(workshop.new_build().directory)
    finish_and_compare(workshop, reference)
    notes = "\n".join(workshop.reporter.notes)
    assert f"taking over from process {hanging_build_of}" in notes
    assert "ended tools it had left running" in notes


def test_lock_is_silent_after_a_build_that_ended_by_itself(tmp_path: Path) -> None:
    notes: list[str] = []
    for _ in range(2):
        with build_lock(tmp_path, notes.append):
            assert (tmp_path / LOCK_FILE).read_text()
    assert notes == []
    (tmp_path / LOCK_FILE).write_text("what a broken disk left")
    with build_lock(tmp_path, notes.append):
        pass
    assert "another build" in notes[0]


def test_lock_is_given_back_when_a_build_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), build_lock(tmp_path, print):
        raise RuntimeError
    with build_lock(tmp_path, lambda text: pytest.fail(text)):
        pass
