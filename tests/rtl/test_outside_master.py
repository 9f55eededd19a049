"""A kernel in Verilog, started and fed by bus models that nobody of this project wrote: cocotb, cocotbext-axi, Icarus.

The registers and the FIFOs are tried with stand-ins for the IPs; the whole of a kernel with --all, as Icarus simulates
a hundred clocks in a second.
"""

from __future__ import annotations

import importlib.util
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from process_designs import TINY
from stand_in_ips import stand_in

from bfpga.accelerator.loader import load_accelerator
from bfpga.rtl.ip import IpVerilog
from bfpga.rtl.kernel import KERNEL_MODULE, ips_of, kernel_design
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.verify.vectors import kernel_vectors

LACKING = [name for name in ("cocotb", "cocotbext") if importlib.util.find_spec(name) is None]
LACKING += [] if shutil.which("iverilog") else ["iverilog"]
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}")
ACCELERATOR = load_accelerator(TINY)


def run(ips: Sequence[IpVerilog], vectors: Mapping[str, bytes], starts: int, seed: int, folder: Path) -> None:
    """The first starts of the vectors, a reset amid one, and all again; AssertionError with the simulator's words."""
    from cocotb_tools.check_results import get_results
    from cocotb_tools.runner import get_runner

    for name, content in vectors.items():
        (folder / name).write_bytes(content)
    for name, text in kernel_design(ACCELERATOR, ips).items():
        (folder / name).write_text(text)
    runner = get_runner("icarus")
    runner.build(
        sources=sorted(folder.glob("*.v")), hdl_toplevel=KERNEL_MODULE, build_dir=folder / "built", always=True,
        timescale=("1ns", "1ps"), build_args=["-g2005"], log_file=folder / "build.log",
    )  # fmt: skip
    told = {"BFPGA_VECTORS": str(folder), "BFPGA_STARTS": str(starts), "BFPGA_SEED": str(seed)}
    results = runner.test(
        hdl_toplevel=KERNEL_MODULE, test_module="outside_master", build_dir=folder / "built", test_dir=folder,
        extra_env=told, log_file=folder / "test.log",
    )  # fmt: skip
    assert get_results(results) == (1, 0), (folder / "test.log").read_text()[-3000:]


def copying_vectors(lengths: Sequence[int]) -> dict[str, bytes]:
    """Starts of the stand-ins: so many beats each, which come back."""
    chance = random.Random(1)
    files, lines = {}, []
    for number, beats in enumerate(lengths):
        data = chance.randbytes(beats * ACCELERATOR.config.stream_bits // 8)
        files |= {f"start{number}.input.bin": data, f"start{number}.output.bin": data}
        files[f"start{number}.weights.bin"] = chance.randbytes(8 * number)
        lines.append(f"start{number} {beats} {number & 1} {beats} 0 0 {number & 1} 0 7 0")
    return files | {"starts.txt": "\n".join(lines).encode()}


@pytest.mark.parametrize("seed", [0, 3])
def test_registers_and_fifos_serve_an_outside_master(seed: int, tmp_path: Path) -> None:
    ips = [stand_in(ip) for ip in kernel_ips(ACCELERATOR.config)]
    run(ips, copying_vectors([1, 40, 3, 130, 2]), 5, seed, tmp_path)


@pytest.mark.slow
def test_a_whole_kernel_serves_an_outside_master(tmp_path: Path) -> None:
    run(ips_of(ACCELERATOR), kernel_vectors(ACCELERATOR.config), 8, 3, tmp_path)
