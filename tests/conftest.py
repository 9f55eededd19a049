"""Settings of all tests."""

from __future__ import annotations

import gc
import os
import re
from typing import Any

import pytest
from effort import ALL, drawn
from hypothesis import settings
from quick_compiler import quick_compiler

# Tests that import ONNX Runtime themselves, before the package does, leave no telemetry behind either.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

#: The integers among the parameters of a test that are not C++'s own.
OTHER_INTEGERS = re.compile(r"(?<=[\[-])(csim:)?(?:ap_int|exact)(?=[\]-])")
LEFT_OUT = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also what proves again, slower, what other tests prove")


def pytest_configure(config: pytest.Config) -> None:
    """How many cases are drawn, and with what kernels are compiled.

    A test's time depends on the machine and on what else runs there: speed is measured in `benchmarks/`.

    Compilers are quick: most kernels run for milliseconds, and what makes them faster takes long to compile.

    With --all it is g++, whose warnings are errors. test_csim_device.py has a kernel with the flags that users get,
    and a project by g++.
    """
    gc.set_threshold(20_000, 10, 10)  # every 700 new objects, as usual, takes hundredths of the tests' time
    if config.getoption("--all"):
        os.environ[ALL] = "1"
    settings.register_profile("tests", deadline=None, max_examples=drawn(100))
    settings.load_profile("tests")
    clang = None if config.getoption("--all") or "CXX" in os.environ else quick_compiler()
    if clang is not None:
        os.environ["CXX"] = str(clang)
    # g++ takes as long without optimization as with the little that -Og is, clang a third of g++'s time.
    os.environ.setdefault("BFPGA_CXXFLAGS", "-Og" if clang is None else "-O0 -Wno-unknown-warning-option")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --all no test marked `slow` runs, nor one with other integers that runs with native ones too.

    A test that is named with its parameters runs all the same.
    """
    named = any("[" in argument for argument in config.args)
    if config.getoption("--all") or named:
        return
    names = {item.nodeid for item in items}
    left_out = {item: None for item in items if item.get_closest_marker("slow") or runs_natively(item.nodeid, names)}
    config.stash[LEFT_OUT] = len(left_out)
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def runs_natively(name: str, names: set[str]) -> bool:
    """Whether a test with other integers is among ``names`` with native ones, all else alike."""
    native = OTHER_INTEGERS.sub(lambda found: "csim" if found[1] else "native", name)
    return native != name and native in names


def pytest_collection_finish() -> None:
    """From here on garbage is looked for in what tests leave, and no longer in what was imported and collected."""
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process of xdist tells the one that shows the summary how many tests it has left out."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left_out := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(f"{left_out} tests for --all left out")
