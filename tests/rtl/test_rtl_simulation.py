"""The simulation of a kernel's Verilog as a device: starts, pauses, starts that stand still, and what breaks a rule.

Stand-ins copy the input to the output. Of whole kernels `tiny` runs always, the smallest skip array with --all; the
IPs of `tiny` are in test_ips.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from kernel_pairs import small
from process_designs import TINY
from stand_in_ips import BODIES, stand_in
from tiny_verilog import IPS, verilog
from verilog_simulation import missing_tools

from bfpga.accelerator.loader import load_accelerator
from bfpga.contract.arrays.skip_array import SkipArray
from bfpga.devices.rtl import RtlSimulation, named_seed
from bfpga.errors import DeviceError
from bfpga.rtl import kernel, simulation
from bfpga.runtime import check_device
from bfpga.vendor.kernel_ips import kernel_ips
from bfpga.verify.check import verify

pytestmark = pytest.mark.skipif(missing_tools() is not None, reason=str(missing_tools()))
ACCELERATOR = load_accelerator(TINY)
BEAT = ACCELERATOR.config.stream_bits // 8
#: One group, two columns, no function.
SKIPPING = small(
    columns=2, rows=2, mantissa_bits=6, multiplier="dsp_packed", functions=("none",), tensor_slots=8, policy_slots=8,
    array=SkipArray(1, chunk=64, queue=16),
)  # fmt: skip
#: A `store` that changes a word that waits, if it is one of the last; a `scratchpad` that withdraws words.
FAULTS = {
    "store": ("_TDATA = stored_TDATA", "_TDATA = stored_TDATA ^ (faulty & left < 5)"),
    "scratchpad": ("stored_TVALID = loads_TVALID", "stored_TVALID = loads_TVALID & (stored_TREADY | ~faulty)"),
}
#: Every other clock.
FAULTY = "    reg faulty;\n    always @(posedge ap_clk) faulty <= ap_rst_n & ~faulty;\n"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache in which stand-ins are no kernel of anybody else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BFPGA_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("BFPGA_CXXFLAGS", "-O0")
        yield Path()


@pytest.fixture
def copying(libraries: Path, monkeypatch: pytest.MonkeyPatch) -> RtlSimulation:
    return simulated(monkeypatch, "copying", BODIES)


def simulated(patch: pytest.MonkeyPatch, name: str, bodies: dict[str, str]) -> RtlSimulation:
    ips = [stand_in(ip, bodies) for ip in kernel_ips(ACCELERATOR.config)]
    patch.setattr(kernel, "ips_of", lambda accelerator, progress: ips)
    patch.setattr(simulation, "simulation_digest", lambda accelerator: name)
    return RtlSimulation(ACCELERATOR)


def beats(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 256, count * BEAT).astype(np.uint8)


def test_a_start_gives_what_the_verilog_computes_and_its_clocks(copying: RtlSimulation) -> None:
    for count in (1, 300, 2):
        result = copying.run_packet(count, beats(count), b"", count * BEAT, clear_policies=count == 2)
        assert result.output == beats(count).tobytes()
        assert (result.cycles, result.status, result.checksums, result.packets) == (count, count == 2, (0, 7, 0), 1)
        assert result.measured is not None
        # A beat in each clock, and some until the first has passed the FIFOs.
        assert count < result.measured.clocks <= count + 10
        assert result.measured.output_waits == 0


def test_pauses_change_nothing_but_clocks(copying: RtlSimulation) -> None:
    copying.disturb(7)
    for count in (300, 50):
        result = copying.run_packet(count, beats(count), b"", count * BEAT)
        assert result.output == beats(count).tobytes()
        assert result.measured is None


def test_a_start_that_stands_still_ends_with_who_waits(copying: RtlSimulation) -> None:
    with pytest.raises(DeviceError, match=r"no beat has moved .* `loads` is empty, its reader waits"):
        copying.run_packet(12, beats(10), b"", 12 * BEAT)
    with pytest.raises(DeviceError, match=r"`output_stream` has no room, its writer waits;.* `stored` holds words"):
        copying.run_packet(10, beats(10), b"", 8 * BEAT)
    # It is reset, and goes on.
    assert copying.run_packet(10, beats(10), b"", 10 * BEAT).output == beats(10).tobytes()


def test_a_beat_that_does_not_stay_is_an_error(libraries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = BODIES | {part: BODIES[part].replace(right, wrong) + FAULTY for part, (right, wrong) in FAULTS.items()}
    faulty = simulated(monkeypatch, "faulty", bodies)
    for stream, count in (("stored", 200), ("output_stream", 4)):
        with pytest.raises(DeviceError, match=rf"stream `{stream}`: a \w+ was withdrawn or changed"):
            faulty.run_packet(count, beats(count), b"", 2 * BEAT)


def test_devices_are_named() -> None:
    assert [named_seed(name) for name in ("rtl", "rtl:seed=5")] == [0, 5]
    for wrong in ("rtl:", "rtl:5", "rtl:seed=0", "rtl:seed=-1", f"rtl:seed={1 << 64}"):
        with pytest.raises(DeviceError, match="rtl:seed=N, N from 1 on"):
            check_device(wrong)


def test_random_networks_on_a_whole_kernel_are_as_on_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of its processes, whose Verilog other tests have too, compiled without optimization; pauses by chance."""
    monkeypatch.setenv("BFPGA_CXXFLAGS", "-O0")
    monkeypatch.setattr(kernel, "ips_of", lambda accelerator, progress: list(map(verilog, IPS)))
    report = verify([ACCELERATOR.config], ["rtl:seed=9"], 4)
    assert report.mismatch is None, report.mismatch


@pytest.mark.slow
def test_random_networks_on_the_smallest_skip_array_are_as_on_the_emulator() -> None:
    report = verify([SKIPPING], ["rtl", "rtl:seed=9"], 12)
    assert report.mismatch is None, report.mismatch
