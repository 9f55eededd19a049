"""The compiled HLS sources behind PYNQ's stock classes, in process and through the server in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import board_fixtures
import numpy as np
import pytest
from effort import some_of
from pynq_designs import ACCELERATORS, pynq_state, start_kernel

pynq = pytest.importorskip("pynq")

import bfpga  # noqa: E402
from bfpga.board.overlays import load_overlay, staged_files  # noqa: E402
from bfpga.board.remote_token import TOKEN_VARIABLE  # noqa: E402
from bfpga.board.virtual.pynq_device import virtual_device  # noqa: E402
from bfpga.contract.registers import offset_of  # noqa: E402

pytestmark = pytest.mark.board
FAMILIES = ("zynq7", "zynqmp")
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_kernel_of_an_overlay_identifies_itself(tmp_path: Path, family: Any) -> None:
    """A start without descriptors moves nothing and writes the first 32 bits of the accelerator's digest."""
    overlay_files = load_overlay(board_fixtures.overlay_directory(ACCELERATORS[family]))
    staged = staged_files(overlay_files, tmp_path, virtual=True)
    with virtual_device(family) as device:
        overlay = pynq.Overlay(str(staged.bitstream), device=device)
        start_kernel(overlay, 0)
        expected = int(overlay_files.manifest.accelerator.digest[:8], 16)
        assert overlay.accelerator.read(offset_of("identification")) == expected
        assert overlay.accelerator.register_map.CTRL.AP_IDLE == 1


@contextmanager
def server_process(family: str) -> Iterator[int]:
    """The server as its own process; gives its port."""
    command = [sys.executable, "-m", "bfpga.board.virtual.remote_server", "--family", family, "--port", "0"]
    paths = os.pathsep.join([str(ROOT / "host"), str(ROOT / "hls"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": paths})
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline().rsplit(":", 1)[1])
    finally:
        process.kill()
        process.wait(timeout=20)


@pytest.mark.parametrize("case", some_of(("lenet_tiny", "lenet_zcu104"), "lenet_zcu104"))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_networks_run_on_a_board_in_another_process(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Host program and board share nothing but the network and a token: outputs are those of the emulator."""
    monkeypatch.setenv(TOKEN_VARIABLE, "shared")
    pytest.importorskip("pynq.remote", reason="PYNQ before 3.1 has no remote boards")
    program, expected = board_fixtures.compiled_program(case), board_fixtures.expected(case, 2)
    family = "zynqmp" if case.endswith("zcu104") else "zynq7"
    with pynq_state(), server_process(family) as port:
        device = bfpga.open_device(f"remote:127.0.0.1:{port}", program)
        try:
            outputs = device.run(expected.inputs).outputs
        finally:
            device.close()
    for name, value in expected.outputs.items():
        np.testing.assert_array_equal(outputs[name], value)
