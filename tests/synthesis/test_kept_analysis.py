"""What the front end has read of an IP is kept for the next synthesis (issue 13: 20 s from cache)."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bfpga.accelerator.loader import load_accelerator
from bfpga.errors import CacheError
from bfpga.synthesis.body import LoopBody, Place

pytest.importorskip("llvmlite", reason="the synthesis extra is not installed")
from bfpga.synthesis.frontend import kernel
from bfpga.synthesis.frontend.kept_analysis import analysis_key, read_analysis, write_analysis

TINY = load_accelerator("tiny")
SQUARES = """\
void squares(volatile int* in, volatile int* out) {
Squares:
    for (int n = 0; n < 16; ++n) {
#pragma HLS PIPELINE II=1
        const int value = *in;
        *out = value * value;
    }
}
"""


def refused(*_: object) -> None:
    raise AssertionError("clang runs again")


def test_an_ip_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kernel.analyse_kernel(TINY, "Store", tmp_path)
    monkeypatch.setattr(kernel, "_compiled", refused)
    assert kernel.analyse_kernel(TINY, "Store", tmp_path) == first
    # A damaged file is no result.
    (kept,) = tmp_path.glob("*.analysis")
    content = bytearray(kept.read_bytes())
    content[-1] ^= 1
    kept.write_bytes(content)
    with pytest.raises(AssertionError, match="runs again"):
        kernel.analyse_kernel(TINY, "Store", tmp_path)


def test_ips_whose_figures_are_there_are_not_read(tmp_path: Path) -> None:
    others = {"sequencer", "scratchpad", "weights", "array", "post"}
    found = kernel.analyse_kernel(TINY, cache=tmp_path, leave=others)
    assert [bool(analysis.loops) for analysis in found] == [False] * 5 + [True]
    assert len(list(tmp_path.glob("*.analysis"))) == 1


def test_a_file_is_read_once_for_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"src/top.cpp": SQUARES}
    first = kernel.analyse_files(files, "src/top.cpp", cache=tmp_path)
    assert "Squares" in [loop.name for loop in first.loops]
    monkeypatch.setattr(kernel, "_compiled", refused)
    assert kernel.analyse_files(files, "src/top.cpp", cache=tmp_path) == first
    with pytest.raises(AssertionError, match="runs again"):
        kernel.analyse_files({**files, "src/other.hpp": ""}, "src/top.cpp", cache=tmp_path)


ANALYSIS = kernel.Analysis([LoopBody("Loop", Place("a.hpp", 3, "f", Place("b.hpp", 1, "g")), 1)], "define")


def test_what_is_kept_belongs_to_sources_and_tools(tmp_path: Path) -> None:
    key = analysis_key({"a.hpp": "int a;"}, "clang 20")
    write_analysis(tmp_path, key, ANALYSIS)
    assert read_analysis(tmp_path, key) == ANALYSIS
    assert read_analysis(tmp_path, analysis_key({"a.hpp": "int b;"}, "clang 20")) is None
    assert read_analysis(tmp_path, analysis_key({"b.hpp": "int a;"}, "clang 20")) is None
    assert read_analysis(tmp_path, analysis_key({"a.hpp": "int a;"}, "clang 21")) is None
    (tmp_path / "file").write_text("")
    write_analysis(tmp_path / "file", key, ANALYSIS)  # a cache that cannot be written keeps nothing


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


@pytest.mark.parametrize("digest", [lambda data: hashlib.sha256(data).digest(),
                                    lambda data: hashlib.sha256(data).hexdigest().encode() + b"\n"])  # fmt: skip
@pytest.mark.parametrize("content", ["trap", b'{"loops": [3], "flat": ""}', b'{"loops": []}', b"[" * 10**6])
def test_what_is_no_analysis_is_not_taken_and_never_run(
    tmp_path: Path, content: bytes | str, digest: Callable[[bytes], bytes]
) -> None:
    """Its digest is right: who can write a file can write that too."""
    trap = tmp_path / "trapped"
    data = pickle.dumps(Trap(trap)) if isinstance(content, str) else content
    (tmp_path / "key.analysis").write_bytes(digest(data) + data)
    assert read_analysis(tmp_path, "key") is None
    assert not trap.exists()


def test_analyses_are_not_read_where_others_can_write(tmp_path: Path) -> None:
    write_analysis(tmp_path / "kept", "key", ANALYSIS)
    assert read_analysis(tmp_path / "kept", "key") == ANALYSIS
    (tmp_path / "kept").chmod(0o777)
    with pytest.raises(CacheError, match="other users can write it"):
        read_analysis(tmp_path / "kept", "key")
